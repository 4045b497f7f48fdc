package algo_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// TestBucketsRefuse checks that every parameter out of its range is refused with one error
// that names it, its value, and what would be accepted.
func TestBucketsRefuse(t *testing.T) {
	token := func(count, period, burst int64) error {
		_, err := algo.NewTokenBucket(count, period, burst)
		return err
	}
	leaky := func(count, period, burst int64, q algo.Queueing) error {
		_, err := algo.NewLeakyBucket(count, period, burst, q)
		return err
	}
	interval := func(count, period, burst int64) error {
		_, err := algo.NewIntervalBucket(count, period, burst, false)
		return err
	}
	warmup := func(count, period, warmup, burst int64) error {
		_, err := algo.NewWarmupBucket(count, period, warmup, burst)
		return err
	}
	limitReq := func(count, period, burst int64, q algo.Queueing) error {
		_, err := algo.NewLimitReq(count, period, burst, q)
		return err
	}
	prime := func(initial int64) error {
		_, err := algo.NewPrimed(must(algo.NewTokenBucket(1, second, 5)), initial)
		return err
	}
	none, queue := algo.Queueing{}, algo.Queueing{Queue: true}
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{token(0, second, 1), algo.ErrRange, "count 0: out of range: want 1 to 1099511627776"},
		{token(-1, second, 1), algo.ErrRange, "count -1: "},
		{token(algo.MaxCount+1, second, 1), algo.ErrRange, "count 1099511627777: "},
		{token(math.MaxInt64, second, 1), algo.ErrRange, "count 9223372036854775807: "},
		{token(1, 0, 1), algo.ErrRange, "period 0 µs: out of range: want 1 to 3155760000000000 (100 years)"},
		{token(1, -5, 1), algo.ErrRange, "period -5 µs: "},
		{token(1, algo.MaxSpan+1, 1), algo.ErrRange, "period 3155760000000001 µs: "},
		{token(1, second, 0), algo.ErrRange, "burst 0: out of range: want 1 to 3155760000 at 1 per 1000000 µs"},
		{token(1, second, 3_155_760_001), algo.ErrRange, "want 1 to 3155760000 "},
		{token(1, algo.MaxSpan, 2), algo.ErrRange, "want 1 to 1 "},
		{token(algo.MaxCount, 1, algo.MaxCount+1), algo.ErrRange, "want 1 to 1099511627776 "},
		{leaky(0, second, 1, none), algo.ErrRange, "count 0: "},
		{leaky(1, second, -1, none), algo.ErrRange, "burst -1: out of range: want 0 to 3155759999 "},
		{leaky(1, second, 3_155_760_000, none), algo.ErrRange, "want 0 to 3155759999 "},
		{leaky(1, second, math.MaxInt64, none), algo.ErrRange, "want 0 to 3155759999 "},
		{leaky(1, second, 5, algo.Queueing{Free: 1}), algo.ErrRange, "free 1: out of range: want 0 without a queue"},
		{leaky(1, second, 5, algo.Queueing{Queue: true, Free: 6}), algo.ErrRange, "free 6: out of range: want 0 to the burst, 5"},
		{leaky(1, second, 5, algo.Queueing{Queue: true, Free: -1}), algo.ErrRange, "free -1: "},
		{interval(1, 0, 1), algo.ErrRange, "period 0 µs: "},
		{interval(1, algo.MaxSpan/2, 3), algo.ErrRange, "burst 3: out of range: want 1 to 2 at 1 per 1577880000000000 µs"},
		{interval(5, second, 0), algo.ErrRange, "burst 0: "},
		{interval(algo.MaxCount, 1, algo.MaxCount+1), algo.ErrRange, "want 1 to 1099511627776 "},
		{warmup(1, second, 0, 1), algo.ErrRange, "warmup 0 µs: out of range: want at least 1"},
		{warmup(9_999_991, second, 2*second, 1), algo.ErrInexact, "warmup 2000000 µs: cannot be kept exactly at 9999991 per 1000000 µs: want at most 1759220"},
		{warmup(1, second, math.MaxInt64, 1), algo.ErrInexact, "want at most 17592186044416"},
		{warmup(1, algo.MaxSpan, second, 1), algo.ErrRange, "period 3155760000000000 µs: out of range: want at most 3155759998000000 for one token, with a warmup of 1000000 µs"},
		{warmup(1, second, second, 3_155_759_999), algo.ErrRange, "want 1 to 3155759998 "},
		{warmup(1, second, second, 0), algo.ErrRange, "burst 0: "},
		{limitReq(1, 1001*second, 0, none), algo.ErrRange, "count 1: out of range: limit_req has thousandths of a request per second, and this is less than one: want at least 2 per 1001000000 µs"},
		{limitReq(algo.MaxCount, 1, 0, none), algo.ErrInexact, "count 1099511627776: cannot be kept exactly: want at most 4503599 per 1 µs"},
		{limitReq(10, second, -1, none), algo.ErrInexact, "burst -1: "},
		{limitReq(10, second, 9_007_199_254, queue), algo.ErrInexact, "want 0 to 9007199253 at 10 per 1000000 µs"},
		{limitReq(1, 1000*second, math.MaxInt64, none), algo.ErrInexact, "want 0 to 3155759 "},
		{limitReq(10, second, 5, algo.Queueing{Queue: true, Free: 6}), algo.ErrRange, "free 6: "},
		{prime(-1), algo.ErrRange, "initial -1: out of range: want 0 to the capacity, 5"},
		{prime(6), algo.ErrRange, "initial 6: "},
	} {
		if c.err == nil || !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("error %v, want %q of %v", c.err, c.text, c.is)
		}
	}
}

// TestBucketsAcceptTheLargest checks that what the errors name as the largest is accepted.
func TestBucketsAcceptTheLargest(t *testing.T) {
	queue := algo.Queueing{Queue: true, Free: 3}
	for _, r := range []algo.Rule{
		must(algo.NewTokenBucket(1, second, 3_155_760_000)),
		must(algo.NewTokenBucket(1<<32-1, day, 1<<32-1)),
		must(algo.NewTokenBucket(algo.MaxCount, 1, algo.MaxCount)),
		must(algo.NewTokenBucket(algo.MaxCount, algo.MaxSpan, algo.MaxCount)),
		must(algo.NewLeakyBucket(1, second, 3_155_759_999, queue)),
		must(algo.NewIntervalBucket(1, algo.MaxSpan/2, 2, true)),
		must(algo.NewWarmupBucket(9_999_991, second, 1_759_220, algo.MaxCount)),
		must(algo.NewWarmupBucket(1, algo.MaxSpan-2*second, second, 1)),
		must(algo.NewWarmupBucket(1, second, second, 3_155_759_998)),
		must(algo.NewLimitReq(4_503_599, 1, 0, algo.Queueing{})),
		must(algo.NewLimitReq(10, second, 9_007_199_253, queue)),
		must(algo.NewLimitReq(1, 1000*second, 3_155_759, algo.Queueing{})),
	} {
		if h := r.Horizon(); h < 1 || h > algo.MaxSpan {
			t.Errorf("%s %v: Horizon %d, want 1 to %d", r.Name(), r.Params(start), h, int64(algo.MaxSpan))
		}
		for _, p := range r.Params(start) {
			if p < 0 || p > algo.MaxInstant {
				t.Errorf("%s %v: a parameter that Lua does not hold exactly", r.Name(), r.Params(start))
			}
		}
		s, got := r.Do(nil, take(start, r.Capacity()))
		if !got.OK || got.Reset > r.Horizon() {
			t.Errorf("%s %v: Take(%d) = %s", r.Name(), r.Params(start), r.Capacity(), story(got))
		}
		if s, got = r.Do(s, charge(start, math.MaxInt64)); got.Reset > algo.MaxSpan+algo.MaxSpan/100 {
			t.Errorf("%s %v: after a Charge of everything %s, %v", r.Name(), r.Params(start), story(got), s)
		}
	}
}
