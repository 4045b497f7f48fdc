package redistest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// must returns the rule of a constructor that accepts its arguments.
func must[R algo.Rule](r R, err error) algo.Rule {
	if err != nil {
		panic(err)
	}
	return r
}

// decade is a span that ends below 2^53 µs for all clocks of these tests.
const decade = algo.MaxSpan / 10

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
		"largest":           must(algo.NewFixedWindow(algo.MaxCount, decade, false)),
		"largest at epoch":  must(algo.NewFixedWindow(algo.MaxCount, decade, true)),
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
		"largest":                    must(algo.NewSlidingWindow(algo.MaxCount, decade, 100, false)),
		"largest weighted":           must(algo.NewSlidingWindow(algo.MaxCount, 86_400_000_000, 24, true)),
		"longest weighted":           must(algo.NewSlidingWindow(algo.MaxCount, decade, 1, true)),
		"small weighted, long":       must(algo.NewSlidingWindow(7, decade, 1, true)),
	})
}

func TestTwinConcurrency(t *testing.T) {
	runTwins(t, map[string]algo.Rule{
		"10 for 1 s":  must(algo.NewConcurrency(10, 1_000_000)),
		"1 for 1 s":   must(algo.NewConcurrency(1, 1_000_000)),
		"300 for 1 h": must(algo.NewConcurrency(300, 3_600_000_000)),
		"2 for 10 y":  must(algo.NewConcurrency(2, decade)),
	})
}

func TestTwinSlidingLog(t *testing.T) {
	runTwins(t, map[string]algo.Rule{
		"10 per s":      must(algo.NewSlidingLog(10, 1_000_000)),
		"1 per us":      must(algo.NewSlidingLog(1, 1)),
		"5 per 20us":    must(algo.NewSlidingLog(5, 20)),
		"300 per h":     must(algo.NewSlidingLog(300, 3_600_000_000)),
		"20 per decade": must(algo.NewSlidingLog(20, decade)),
		"10000 per h":   must(algo.NewSlidingLog(10_000, 3_600_000_000)),
	})
}

// stored returns the command that reads the state at a key.
func stored(r algo.Rule, key string) []any {
	if r.Name() == "sliding_log" || r.Name() == "tenant_bucket" {
		return []any{"ZRANGE", key, 0, -1, "WITHSCORES"}
	}
	return []any{"GET", key}
}

// log formats the sorted set of a sliding log, in the form of logWanted. Entries up to from
// have left the period and may be absent.
func log(reply any, from int64) string {
	set := reply.([]any)
	if len(set) == 0 {
		return "<nil>"
	}
	text, _, _ := strings.Cut(set[0].(string), ",[") // the span by which the clock was set back
	head := strings.Split(strings.Trim(text, "[]"), ",")
	var b strings.Builder
	b.WriteString("last " + head[len(head)-1])
	for i := 2; i < len(set); i += 2 {
		at, err := strconv.ParseInt(set[i+1].(string), 10, 64)
		if err != nil {
			return fmt.Sprint(set)
		}
		_, n, _ := strings.Cut(set[i].(string), ":")
		if at > from {
			fmt.Fprintf(&b, ", %d:%s", at, n)
		}
	}
	return b.String()
}

// logWanted formats the words of a sliding log.
func logWanted(words []int64, last, from int64) string {
	if last == 0 {
		return "<nil>"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "last %d", last)
	total := int64(0)
	for i := 0; i < len(words); i += 2 {
		if words[i] > from {
			fmt.Fprintf(&b, ", %d:%d", words[i], words[i+1]-total)
		}
		total = words[i+1]
	}
	return b.String()
}

// TestTwinCalendarOutside checks that a clock outside of the rule's calendar windows is an
// error.
func TestTwinCalendarOutside(t *testing.T) {
	w := newTwin(t, must(algo.NewCalendarWindow(100, months{})))
	now := time.Date(2027, 3, 15, 0, 0, 0, 0, time.UTC)
	for clock, fails := range map[time.Time]bool{
		time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC): true,
		time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC):  false,
		time.Date(2027, 5, 31, 0, 0, 0, 0, time.UTC): false,
		time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC):  true,
	} {
		key := clock.String()
		reply, err := w.c.Do("EVALSHA", w.sha, 1, key, pack(clock.UnixMicro(), 0, 0, 1, 2, 0, 1, 0),
			"fixed_window", pack(append(w.rule.Params(now.UnixMicro()), w.rule.Horizon())...))
		if err != nil && !strings.Contains(err.Error(), "an instant of the calendar windows") || (err != nil) != fails {
			t.Errorf("clock %v: %v, %v, want an error: %t", clock, reply, err, fails)
		}
		if n, err := w.c.Do("EXISTS", key); err != nil || n != b2i(!fails) {
			t.Errorf("clock %v: EXISTS = %v, %v", clock, n, err)
		}
	}
}
