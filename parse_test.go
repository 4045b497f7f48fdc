package weir_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text     string
		want     string // canonical
		capacity int64
	}{
		{"10/s", "10/s burst 10", 10},
		{"10/s burst 20", "10/s burst 20", 20},
		{"  10/s   burst 20 ", "10/s burst 20", 20},
		{"10/s gcra burst 20", "10/s burst 20", 20},
		{"1_000_000/s", "1000000/s burst 1000000", 1_000_000},
		{"5000/24h", "5000/24h burst 5000", 5000},
		{"5000/day", "5000/24h burst 5000", 5000},
		{"1/year", "1/8760h burst 1", 1},
		{"7/2w", "7/336h burst 7", 7},
		{"3/1500ms", "3/1500ms burst 3", 3},
		{"3/1.5s", "3/1500ms burst 3", 3},
		{"9/us", "9/us burst 9", 9},
		{"100/1m30s interval", "100/90s burst 100 interval", 100},
		{"100/m interval anchor epoch", "100/m burst 100 interval anchor epoch", 100},
		{"10/s initial 0", "10/s burst 10 initial 0", 10},
		{"50/s warmup 30s", "50/s burst 50 warmup 30s", 50},
		{"10/s leaky_bucket burst 20", "10/s leaky_bucket burst 20", 21},
		{"10/s leaky_bucket", "10/s leaky_bucket burst 0", 1},
		{"10/s leaky_bucket burst 20 queue", "10/s leaky_bucket burst 20 queue", 21},
		{"10/s leaky_bucket burst 20 delay 8", "10/s leaky_bucket burst 20 queue delay 8", 21},
		{"10/s leaky_bucket burst 20 nodelay nginx", "10/s leaky_bucket burst 20 nginx", 21},
		{"6/m leaky_bucket nginx queue burst 5", "6/m leaky_bucket burst 5 queue nginx", 6},
		{"100/m fixed_window", "100/m fixed_window", 100},
		{"100/m fixed_window anchor epoch", "100/m fixed_window anchor epoch", 100},
		{"100000/month", "100000/month fixed_window calendar UTC", 100000},
		{"100000/month calendar Asia/Shanghai", "100000/month fixed_window calendar Asia/Shanghai", 100000},
		{"100/day calendar Europe/Berlin", "100/day fixed_window calendar Europe/Berlin", 100},
		{"100/week fixed_window calendar UTC", "100/week fixed_window calendar UTC", 100},
		{"100/m sliding_window", "100/m sliding_window segments 10", 100},
		{"100/m sliding_window segments 6 weighted", "100/m sliding_window segments 6 weighted", 100},
		{"100/m sliding_log", "100/m sliding_log", 100},
		{"20 concurrency lease 30s", "20 concurrency lease 30s", 20},
		{"20 concurrency", "20 concurrency lease 1m", 20},
		{"1000/month calendar Europe/Berlin day 15", "1000/month fixed_window calendar Europe/Berlin day 15", 1000},
		{"5/month day 31", "5/month fixed_window calendar UTC day 31", 5},
		{"5/month day 1", "5/month fixed_window calendar UTC", 5},
		{"10/min", "10/m burst 10", 10},
		{"10/sec", "10/s burst 10", 10},
		{"3/hr", "3/h burst 3", 3},
		{"10r/s", "10/s burst 10", 10},
		{"6r/m leaky_bucket burst 5 nginx", "6/m leaky_bucket burst 5 nginx", 6},
		{"0.5/s", "1/2s burst 1", 1},
		{"1.5/m", "3/2m burst 2", 2},
		{"0.5r/s burst 4", "1/2s burst 4", 4},
		{"0.99/s", "99/100s burst 1", 1},
		{"2.0/s", "2/s burst 2", 2},
		{"0.2/day", "1/120h burst 1", 1},
		{"0.5/s leaky_bucket", "1/2s leaky_bucket burst 0", 1},
		{"10000000/s", "10000000/s burst 10000000", 10_000_000},
	} {
		l, err := weir.ParseLimit(c.text)
		if err != nil {
			t.Errorf("ParseLimit(%q): %v", c.text, err)
			continue
		}
		if l.String() != c.want || l.Capacity() != c.capacity {
			t.Errorf("ParseLimit(%q) = %q of capacity %d, want %q of %d", c.text, l, l.Capacity(), c.want, c.capacity)
		}
		again, err := weir.ParseLimit(l.String())
		if err != nil || !again.Equal(l) || again.Spec().ID != l.Spec().ID {
			t.Errorf("ParseLimit(%q) of its own text = %q, %v", c.text, again, err)
		}
		built, err := weir.NewLimit(l.Config())
		if err != nil || !built.Equal(l) {
			t.Errorf("NewLimit(Config of %q) = %q, %v", c.text, built, err)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "got nothing"},
		{"10", "count per period"},
		{"/s", "count"},
		{"ten/s", `"ten"`},
		{"NaN/s", `"NaN"`},
		{"1e3/s", `"1e3"`},
		{"0/s", "count 0"},
		{"-1/s", "count -1"},
		{"9223372036854775808/s", `out of range: want at most 1099511627776, got "9223372036854775808"`},
		{"10 per second", `want a count per period such as 10/s, got "10 per second"`},
		{"10 / s", "want a count per period such as 10/s"},
		{"5 concurency", "did you mean concurrency?"},
		{"1099511627777/s", "count 1099511627777"},
		{"10/0s", "period"},
		{"10/-1s", "period"},
		{"10/NaN", `"NaN"`},
		{"10/fortnight", `"fortnight"`},
		{"10/1ns", "whole microseconds"},
		{"10/200y", `"200y"`},
		{"10/999999999999d", "100 years"},
		{"10/s, 5/m", "want one limit, got a comma"},
		{"10/s,5/m", "want one limit, got a comma"},
		{"10/s burst 20, 5/m", "want one limit, got a comma"},
		{"0", `want a count per period such as 1/s, got "0"`},
		{"10/s burst", "value after burst"},
		{"10/s burst 0", "burst"},
		{"10/s burst -3", "burst"},
		{"10/s burst 1.5", `"1.5"`},
		{"10/s burst 2 burst 3", "twice"},
		{"10/s token_bucket sliding_log", "one algorithm"},
		{"10/s quickly", `"quickly"`},
		{"10/s segments 6", "segments"},
		{"10/s sliding_window segments 0", "1 to 100"},
		{"10/s sliding_window segments 7", "segments 7"},
		{"10/s sliding_window burst 5", "burst"},
		{"10/s leaky_bucket queue nodelay", "nodelay"},
		{"10/s leaky_bucket nodelay delay 3", "nodelay"},
		{"10/s calendar UTC", "calendar"},
		{"10/day calendar Mars/Olympus", `"Mars/Olympus"`},
		{"10/day calendar Local", `"Local"`},
		{"10/month burst 5", "calendar"},
		{"10/s initial 11", "initial 11"},
		{"10/s initial -1", "initial -1"},
		{"10/s warmup 10s initial 1", "warmup"},
		{"10/s warmup -10s", "warmup"},
		{"10/s anchor epoch", "anchor"},
		{"10/s fixed_window anchor noon", `"noon"`},
		{"20/s concurrency", "20 concurrency"},
		{"10/s lease 5s", "lease"},
		{"1000000/m sliding_log", "sliding_window"},
		{strings.Repeat("9", 300) + "/s", "256 bytes"},
		{"5/month day 32", "1 to 31"},
		{"5/month day 0", "1 to 31"},
		{"5/week calendar UTC day 2", "with a count per month"},
		{"5/s day 2", "with a count per month"},
		{"5/month day", "value after day"},
		{"10/s brust 20", `got "brust": did you mean burst?`},
		{"10/m sliding-window", "did you mean sliding_window?"},
		{"10/minuet", "did you mean minute?"},
		{"1.5/m fixed_window", "count: want a whole number with fixed_window"},
		{"1.5/m interval", "count: want a whole number with interval"},
		{"0.5/month", "count: want a whole number per month"},
		{"0.1234567/s", "up to 6 decimals"},
		{".5/s", "up to 6 decimals"},
		{"1._5/s", "up to 6 decimals"},
		{"0.5 concurrency", "count: want a whole number"},
		{"0.0/s", "count 0"},
		{"0.000001/100h", "at most 100 years"},
	} {
		l, err := weir.ParseLimit(c.text)
		if err == nil {
			t.Errorf("ParseLimit(%q) = %q, want an error", c.text, l)
			continue
		}
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "invalid") != 1 {
			t.Errorf("ParseLimit(%q): %v; want one ErrInvalid, with %q", c.text, err, c.want)
		}
	}
}

func TestNewLimitRefuses(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	for _, c := range []struct {
		config weir.LimitConfig
		want   string
	}{
		{nil, "nil"},
		{weir.TokenBucket{}, "count 0"},
		{weir.TokenBucket{Count: 1}, "period 0"},
		{weir.TokenBucket{Count: 1, Period: -time.Second}, "period -1000000"},
		{weir.TokenBucket{Count: 1, Period: time.Second, Burst: -1}, "burst -1"},
		{weir.TokenBucket{Count: 1, Period: time.Second, Epoch: true}, "anchor"},
		{weir.TokenBucket{Count: 1, Period: time.Second, Interval: true, Warmup: time.Second}, "warmup"},
		{weir.TokenBucket{Count: 1, Period: time.Second, Warmup: 1}, "whole microseconds"},
		{weir.TokenBucket{Count: math.MaxInt64, Period: time.Second}, "count 9223372036854775807"},
		{weir.LeakyBucket{Count: 1, Period: time.Second, QueueFree: 1}, "delay"},
		{weir.FixedWindow{Count: 1, Calendar: "day", Zone: zone}, "zone"},
		{weir.FixedWindow{Count: 1, Calendar: "decade"}, "decade"},
		{weir.FixedWindow{Count: 1, Calendar: "day", Epoch: true}, "anchor"},
		{weir.FixedWindow{Count: 1, Period: time.Second, Calendar: "day"}, "period"},
		{weir.FixedWindow{Count: 1, Period: time.Second, Zone: time.UTC}, "calendar"},
		{weir.SlidingWindow{Count: 1, Period: time.Second, Segments: 101}, "segments 101"},
		{weir.TokenBucket{Count: 1, Period: 100 * 365 * 24 * time.Hour, Burst: 2}, "burst 2"},
	} {
		l, err := weir.NewLimit(c.config)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewLimit(%+v) = %q, %v; want ErrInvalid with %q", c.config, l, err, c.want)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"10/s burst 20", "100000/month calendar Asia/Shanghai", "20 concurrency lease 30s", "1/us leaky_bucket nginx", "5/10s sliding_window segments 5 weighted"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := weir.ParseLimit(text)
		if err != nil {
			if !errors.Is(err, weir.ErrInvalid) {
				t.Fatalf("ParseLimit(%q): %v, want ErrInvalid", text, err)
			}
			return
		}
		again, err := weir.ParseLimit(l.String())
		if err != nil || !again.Equal(l) {
			t.Fatalf("ParseLimit(%q) = %q, which reads as %q, %v", text, l, again, err)
		}
		if l.Capacity() < 1 {
			t.Fatalf("ParseLimit(%q) has capacity %d", text, l.Capacity())
		}
	})
}
