package edge

import (
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/redisstore"
)

// rule is the place of a limit in the plan's Rules, from 1.
func (c *compiler) rule(l weir.Limit) int {
	if at := c.rules[l.String()]; at > 0 {
		return at
	}
	r := redisstore.Outline(l, c.now.UnixMicro())
	out := Rule{
		Limit: l.String(), Suffix: r.Suffix, Algorithm: r.Algorithm, Params: r.Params, Capacity: l.Capacity(), Window: httplimit.Window(l),
	}
	if l.IsConcurrency() {
		out.Lease = l.Period().Microseconds()
	}
	if w, ok := l.Config().(weir.FixedWindow); ok && w.Calendar != "" {
		out.Calendar = c.calendar(l, w)
		clear(out.Params[calendarAt-1 : calendarAt-1+calendarBounds])
	}
	c.plan.Rules = append(c.plan.Rules, out)
	c.rules[l.String()] = len(c.plan.Rules)
	return len(c.plan.Rules)
}

// Of the Params of a calendar's rule: where bounds of windows begin, from 1, and how
// many they are (see algo.FixedWindow.Params).
const (
	calendarAt     = 3
	calendarBounds = 5
)

// How far the windows of a plan reach: a clock may be slow by a day. Days are many, and
// those of five years take 20 KB.
const (
	back      = 24 * time.Hour
	days      = 5*366 + 7
	yearsLong = 20
)

// calendar is the place of the windows of l in the plan's Calendars, from 1.
func (c *compiler) calendar(l weir.Limit, w weir.FixedWindow) int {
	of := w.Calendar + " " + w.Zone.String()
	if at := c.calendars[of]; at > 0 {
		return at
	}
	until := c.now.AddDate(yearsLong, 0, 0)
	if w.Calendar == "day" {
		until = c.now.AddDate(0, 0, days)
	}
	out := Calendar{Of: of, At: calendarAt}
	for at := c.now.Add(-back).UnixMicro(); out.last() <= until.Unix(); {
		bounds := l.Spec().Rule.Params(at)[calendarAt-1:][:calendarBounds]
		at = bounds[calendarBounds-1]
		for _, b := range bounds {
			s := b / time.Second.Microseconds() // no clock changes within a second
			if n := len(out.Bounds); n == 0 || s > out.Bounds[n-1] {
				out.Bounds = append(out.Bounds, s)
			}
		}
	}
	c.plan.Calendars = append(c.plan.Calendars, out)
	c.calendars[of] = len(c.plan.Calendars)
	return len(c.plan.Calendars)
}

// last is the instant in seconds from which c tells too little.
func (c *Calendar) last() int64 {
	if len(c.Bounds) < calendarBounds {
		return 0
	}
	return c.Bounds[len(c.Bounds)-3]
}
