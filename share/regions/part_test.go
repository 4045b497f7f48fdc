package regions_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share/regions"
)

// TestPart checks the parts of limits of every algorithm.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		limit   string
		percent int
		want    string // a limit, or words of the error
	}{
		{"1001/s burst 200", 40, "400/s burst 80"},
		{"1000/s burst 199", 40, "2/5005us burst 79"}, // 399.6/s
		{"7/h burst 3", 50, "1/1029600ms burst 1"},
		{"1001/s leaky_bucket burst 9", 50, "500/s leaky_bucket burst 4"},
		{"100/m fixed_window anchor epoch", 33, "33/m fixed_window anchor epoch"},
		{"100000/month calendar Asia/Shanghai", 1, "1000/month fixed_window calendar Asia/Shanghai"},
		{"100/m sliding_window segments 6 weighted", 99, "99/m sliding_window segments 6 weighted"},
		{"100/s sliding_log", 50, "50/1001ms sliding_log"},
		{"20 concurrency lease 30s", 30, "6 concurrency lease 30s"},
		{"1000/s burst 200", 100, "1000/s burst 200"},
		{"10/87600h burst 100", 1, "want: less than one"}, // no exact period of at most 100 years
		{"10/s burst 2", 40, "want: 40% of it is less than one"},
		{"2/s fixed_window anchor epoch", 40, "want: 40% of it is less than one"},
		{"100/m fixed_window", 40, "want: add anchor epoch"},
		{"100/m burst 100 interval", 40, "want: cannot be divided among regions"},
		{"100/m burst 100 initial 5", 40, "want: cannot be divided among regions"},
		{"100/m leaky_bucket burst 5 queue", 40, "want: cannot be divided among regions"},
		{"100/m burst 9", 0, "want: 1 to 100 percent"},
		{"100/m burst 9", 101, "want: 1 to 100 percent"},
	} {
		p, err := regions.Part(weir.MustLimit(c.limit).Named("n"), c.percent)
		want, isError := strings.CutPrefix(c.want, "want: ")
		switch {
		case isError && (!errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%d%% of %s: %v, want an error with %q", c.percent, c.limit, err, want)
		case !isError && (err != nil || p.String() != want || p.Name() != "n"):
			t.Errorf("%d%% of %s = %s named %q, %v, want %s", c.percent, c.limit, p, p.Name(), err, want)
		}
	}
	if _, err := regions.Part(weir.Limit{}, 50); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("part of the zero Limit: %v, want ErrInvalid", err)
	}
}

// TestPartsSum checks that parts of 100 percent are together at most the limit.
func TestPartsSum(t *testing.T) {
	for _, text := range []string{
		"1000/s burst 199", "7777/m burst 333", "1000000/24h burst 50", "1099511627776/s burst 1000",
		"999/s leaky_bucket burst 98", "501/s fixed_window anchor epoch", "77/s sliding_window", "150/s sliding_log", "29 concurrency",
	} {
		l := weir.MustLimit(text)
		for _, split := range [][]int{{50, 50}, {33, 33, 34}, {7, 93}, {10, 20, 30, 40}} {
			rate, capacity := 0.0, int64(0)
			for _, percent := range split {
				p, err := regions.Part(l, percent)
				if err != nil {
					t.Fatalf("%d%% of %s: %v", percent, text, err)
				}
				rate += float64(p.Count()) / p.Period().Seconds()
				capacity += p.Capacity()
			}
			most := float64(l.Count()) / l.Period().Seconds()
			if l.IsConcurrency() {
				rate, most = 0, 0
			}
			if rate > most*(1+1e-12) || rate < 0.9*most || capacity > l.Capacity() {
				t.Errorf("parts %v of %s have %v/s and %d, want at most %v/s and %d", split, text, rate, capacity, most, l.Capacity())
			}
		}
	}
}
