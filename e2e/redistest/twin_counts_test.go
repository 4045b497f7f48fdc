package redistest_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/algo"
)

// must is the rule of a constructor that is known to accept its arguments.
func must[R algo.Rule](r R, err error) algo.Rule {
	if err != nil {
		panic(err)
	}
	return r
}

// months is the calendar of months in UTC.
type months struct{}

func (months) Window(now int64) (start, end int64) {
	y, m, _ := time.UnixMicro(now).UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
}

func (months) Longest() int64 { return 31 * 24 * time.Hour.Microseconds() }

func TestTwinFixedWindow(t *testing.T) {
	runTwins(t, map[string]algo.Rule{
		"10 per s":          must(algo.NewFixedWindow(10, 1_000_000, false)),
		"10 per s at epoch": must(algo.NewFixedWindow(10, 1_000_000, true)),
		"1 per us":          must(algo.NewFixedWindow(1, 1, true)),
		"largest":           must(algo.NewFixedWindow(algo.MaxCount, algo.MaxSpan, false)),
		"largest at epoch":  must(algo.NewFixedWindow(algo.MaxCount, algo.MaxSpan, true)),
		"100 a month":       must(algo.NewCalendarWindow(100, months{})),
	})
}

func TestTwinSlidingWindow(t *testing.T) {
	runTwins(t, map[string]algo.Rule{
		"10 per s in 10":             must(algo.NewSlidingWindow(10, 1_000_000, 10, false)),
		"10 per s in 1":              must(algo.NewSlidingWindow(10, 1_000_000, 1, false)),
		"50 per 100us in 100":        must(algo.NewSlidingWindow(50, 100, 100, true)),
		"10 per s weighted in 10":    must(algo.NewSlidingWindow(10, 1_000_000, 10, true)),
		"1000 per min weighted in 1": must(algo.NewSlidingWindow(1000, 60_000_000, 1, true)),
		"largest":                    must(algo.NewSlidingWindow(algo.MaxCount, algo.MaxSpan, 100, false)),
		"largest weighted":           must(algo.NewSlidingWindow(algo.MaxInstant/3_600_000_000, 86_400_000_000, 24, true)),
		"longest weighted":           must(algo.NewSlidingWindow(algo.MaxInstant/(algo.MaxSpan/2), algo.MaxSpan/2, 1, true)),
	})
}

func TestTwinConcurrency(t *testing.T) {
	runTwins(t, map[string]algo.Rule{
		"10 for 1 s":  must(algo.NewConcurrency(10, 1_000_000)),
		"1 for 1 s":   must(algo.NewConcurrency(1, 1_000_000)),
		"300 for 1 h": must(algo.NewConcurrency(300, 3_600_000_000)),
		"2 for 100 y": must(algo.NewConcurrency(2, algo.MaxSpan)),
	})
}
