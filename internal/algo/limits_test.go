package algo_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// length is a calendar of windows of that many µs.
type length int64

func (l length) Window(now int64) (int64, int64) {
	return now - now%int64(l), now - now%int64(l) + int64(l)
}
func (l length) Longest() int64 { return int64(l) }

// TestCountingRulesRefuse checks that every argument that a constructor refuses is named,
// with its value and with what would be accepted.
func TestCountingRulesRefuse(t *testing.T) {
	type err = error
	fixed := func(count, period int64) err { _, e := algo.NewFixedWindow(count, period, false); return e }
	calendar := func(count int64, c algo.Calendar) err { _, e := algo.NewCalendarWindow(count, c); return e }
	sliding := func(count, period int64, segments int, weighted bool) err {
		_, e := algo.NewSlidingWindow(count, period, segments, weighted)
		return e
	}
	log := func(count, period int64) err { _, e := algo.NewSlidingLog(count, period); return e }
	slots := func(count, lease int64) err { _, e := algo.NewConcurrency(count, lease); return e }
	for _, c := range []struct {
		got  error
		is   error
		says string
	}{
		{fixed(0, 1), algo.ErrRange, "count 0: out of range: want 1 to 1099511627776"},
		{fixed(-1, 1), algo.ErrRange, "count -1: "},
		{fixed(algo.MaxCount+1, 1), algo.ErrRange, "count 1099511627777: "},
		{fixed(math.MaxInt64, 1), algo.ErrRange, "count 9223372036854775807: "},
		{fixed(1, 0), algo.ErrRange, "period 0 µs: out of range: want 1 to 3155760000000000 (100 years)"},
		{fixed(1, -5), algo.ErrRange, "period -5 µs: "},
		{fixed(1, algo.MaxSpan+1), algo.ErrRange, "period 3155760000000001 µs: "},
		{fixed(algo.MaxCount, algo.MaxSpan), nil, ""},
		{calendar(0, length(9)), algo.ErrRange, "count 0: "},
		{calendar(1, nil), algo.ErrRange, "calendar nil: out of range: want a calendar"},
		{calendar(1, length(0)), algo.ErrRange, "longest window 0 µs: "},
		{calendar(1, length(algo.MaxSpan+1)), algo.ErrRange, "longest window 3155760000000001 µs: "},
		{calendar(1, length(9)), nil, ""},
		{sliding(0, 100, 1, false), algo.ErrRange, "count 0: "},
		{sliding(1, 0, 1, false), algo.ErrRange, "period 0 µs: "},
		{sliding(1, math.MinInt64, 1, false), algo.ErrRange, "period -9223372036854775808 µs: "},
		{sliding(1, 100, 0, false), algo.ErrRange, "segments 0: out of range: want 1 to 100"},
		{sliding(1, 100, -1, true), algo.ErrRange, "segments -1: "},
		{sliding(1, 1000, 101, true), algo.ErrRange, "segments 101: "},
		{sliding(1, 100, 3, false), algo.ErrRange, "segments 3: out of range: want a number that divides the period of 100 µs"},
		{sliding(1, 50, 100, false), algo.ErrRange, "segments 100: "},
		{sliding(104249, 86_400_000_000, 1, true), nil, ""},
		{sliding(algo.MaxCount, 86_400_000_000, 1, false), nil, ""},
		{sliding(1, algo.MaxSpan, 1, true), algo.ErrRange, "period and a segment 6311520000000000 µs: out of range: want 1 to 3155760000000000 (100 years)"},
		{sliding(1, algo.MaxSpan/2, 1, true), nil, ""},
		{log(0, 1), algo.ErrRange, "count 0: out of range: want 1 to 10000"},
		{log(1_000_000, 60_000_000), algo.ErrRange, "count 1000000: out of range: want 1 to 10000, since every admission is remembered; for more use sliding_window, weighted, or token_bucket"},
		{log(10_001, 1), algo.ErrRange, "count 10001: "},
		{log(1, 0), algo.ErrRange, "period 0 µs: "},
		{log(10_000, algo.MaxSpan), nil, ""},
		{slots(0, 1), algo.ErrRange, "count 0: out of range: want 1 to 10000"},
		{slots(10_001, 1), algo.ErrRange, "count 10001: "},
		{slots(1, 0), algo.ErrRange, "lease 0 µs: out of range: want 1 to 3155760000000000 (100 years)"},
		{slots(10_000, algo.MaxSpan), nil, ""},
	} {
		if !errors.Is(c.got, c.is) || c.is != nil && !strings.HasPrefix(c.got.Error(), c.says) {
			t.Errorf("got %v, want %v: %q", c.got, c.is, c.says)
		}
	}
}
