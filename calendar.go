package weir

import "time"

// The calendar units.
const (
	day   = "day"
	week  = "week"
	month = "month"
	year  = "year"
)

// A calendar implements [algo.Calendar] with the time zone database. A day has 23 or
// 25 hours where the clock of the zone changes.
type calendar struct {
	unit string
	zone *time.Location
	day  int // on which a month begins
}

// Window implements [algo.Calendar].
func (c calendar) Window(now int64) (start, end int64) {
	t := time.UnixMicro(now).In(c.zone)
	y, m, d := t.Date()
	var from, to time.Time
	switch c.unit {
	case week:
		d -= (int(t.Weekday()) + 6) % 7 // days since Monday
		from, to = c.midnight(y, m, d), c.midnight(y, m, d+7)
	case month:
		if from = c.monthStart(y, m); t.Before(from) {
			m--
			from = c.monthStart(y, m)
		}
		to = c.monthStart(y, m+1)
	case year:
		from, to = c.midnight(y, 1, 1), c.midnight(y+1, 1, 1)
	default:
		from, to = c.midnight(y, m, d), c.midnight(y, m, d+1)
	}
	return from.UnixMicro(), to.UnixMicro()
}

// monthStart returns the instant at which the window that begins in a month begins.
func (c calendar) monthStart(y int, m time.Month) time.Time {
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return c.midnight(y, m, min(c.day, last))
}

// midnight returns the first instant of a date. If a change of the clock skips
// midnight, that is the change itself; if it repeats midnight, the first one.
func (c calendar) midnight(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, c.zone)
	y, m, d = time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Date() // the 32nd is a 1st
	if !on(t, y, m, d) {
		_, t = t.ZoneBounds()
		return t
	}
	change, _ := t.ZoneBounds()
	if before := change.Add(-1); !change.IsZero() && on(before, y, m, d) {
		_, offset := before.Zone()
		return time.Date(y, m, d, 0, 0, 0, 0, time.FixedZone("", offset))
	}
	return t
}

// on reports whether t is on a date of its zone.
func on(t time.Time, y int, m time.Month, d int) bool {
	ty, tm, td := t.Date()
	return ty == y && tm == m && td == d
}

// Longest implements [algo.Calendar].
func (c calendar) Longest() int64 {
	days := map[string]int64{day: 1, week: 7, month: 31, year: 366}[c.unit]
	return (days*24 + 2) * time.Hour.Microseconds()
}
