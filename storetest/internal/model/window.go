package model

import (
	"math"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// window is a fixed window: what was taken since it began.
type window struct {
	count  int64
	period int64 // 0 of a calendar
	epoch  bool
	bounds func(now int64) (start, end int64) // of the window of a key whose first token is taken now

	start, end int64
	taken      int64
}

func newWindow(c weir.FixedWindow) State {
	period := c.Period.Microseconds()
	w := &window{count: c.Count, period: period, epoch: c.Epoch}
	switch {
	case c.Calendar != "":
		w.bounds = calendar(c.Calendar, c.Zone, c.Day)
	case c.Epoch:
		w.bounds = func(now int64) (int64, int64) { return now - now%period, now - now%period + period }
	default:
		w.bounds = func(now int64) (int64, int64) { return now, now + period }
	}
	return w
}

func (w *window) Do(a algo.Ask) algo.Result {
	start, end, taken := w.start, w.end, w.taken
	if a.Now >= end {
		start, end, taken = 0, 0, 0 // the window is over
	}
	n, ok := fits(a, w.count-taken)
	r := algo.Result{OK: ok, Granted: n}
	switch {
	case !ok && missing(a) > w.count:
		r.Retry = algo.Never
	case !ok:
		r.Retry = end - a.Now
	case a.Op == algo.Return:
		if a.At == 0 || start <= a.At && a.At < end {
			taken -= min(taken, a.N)
		}
	case n > 0:
		if taken == 0 {
			start, end = w.bounds(a.Now)
		}
		taken += min(n, most-taken)
	}
	r.Balance = w.count - taken
	if taken == 0 {
		start, end = 0, 0
	}
	r.Reset = max(0, end-a.Now)
	if ok && a.Op != algo.Peek {
		w.start, w.end, w.taken = start, end, taken
	}
	return r
}

func (w *window) Until() int64 { return w.end }

func (w *window) Clone() State {
	c := *w
	return &c
}

// calendar returns the windows of a unit of the calendar in a zone. A window is the
// longest span around an instant in which the clocks of the zone show the same day,
// week, month or year. It is found in steps of a day, the last of which is halved.
func calendar(unit string, zone *time.Location, first int) func(int64) (int64, int64) {
	var start, end int64 // the last window found, for speed
	return func(now int64) (int64, int64) {
		if start <= now && now < end {
			return start, end
		}
		here := shown(unit, zone, first, now)
		same := func(us int64) bool { return shown(unit, zone, first, us) == here }
		start, end = edge(now, -1, same)+1, edge(now, 1, same)
		if end-start > 370*day || start > now || end <= now {
			panic("model: a calendar window without end")
		}
		if start < math.MinInt64/2 {
			panic("model: a calendar window without beginning")
		}
		return start, end
	}
}

const day = 24 * 3600 * 1_000_000 // µs

// edge is the first instant, in a direction from now on, that is not the same.
func edge(now, direction int64, same func(int64) bool) int64 {
	in, out := now, now+direction*day
	for same(out) {
		in, out = out, out+direction*day
	}
	for in+direction != out {
		if mid := in + (out-in)/2; same(mid) {
			in = mid
		} else {
			out = mid
		}
	}
	return out
}

// shown returns the date that a calendar in zone shows at an instant, down to the unit. Months begin
// on the day first, or on their last day if they have no such day.
func shown(unit string, zone *time.Location, first int, us int64) [3]int {
	t := time.UnixMicro(us).In(zone)
	y, m, d := t.Date()
	switch unit {
	case "year":
		return [3]int{y}
	case "month":
		if tomorrow := time.Date(y, m, d+1, 12, 0, 0, 0, time.UTC); d < first && tomorrow.Month() == m {
			m--
		}
		return [3]int{12*y + int(m)}
	case "week":
		y, w := t.ISOWeek()
		return [3]int{y, w}
	}
	return [3]int{y, int(m), d}
}
