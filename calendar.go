package weir

import "time"

// A CalendarUnit is a kind of calendar window.
type CalendarUnit string

// The calendar units.
const (
	// Day is a day from midnight to midnight.
	Day CalendarUnit = "day"
	// Week is a week from Monday.
	Week CalendarUnit = "week"
	// Month is a month of the calendar.
	Month CalendarUnit = "month"
	// Year is a year of the calendar.
	Year CalendarUnit = "year"
)

// calendar is an algo.Calendar over the time zone database. Days are as long as
// the zone makes them: 23 or 25 hours where its clock changes.
type calendar struct {
	unit CalendarUnit
	zone *time.Location
}

// Window implements [algo.Calendar].
func (c calendar) Window(now int64) (start, end int64) {
	t := time.UnixMicro(now).In(c.zone)
	y, m, d := t.Date()
	var from, to time.Time
	switch c.unit {
	case Week:
		d -= (int(t.Weekday()) + 6) % 7 // days since Monday
		from, to = c.midnight(y, m, d), c.midnight(y, m, d+7)
	case Month:
		from, to = c.midnight(y, m, 1), c.midnight(y, m+1, 1)
	case Year:
		from, to = c.midnight(y, 1, 1), c.midnight(y+1, 1, 1)
	default:
		from, to = c.midnight(y, m, d), c.midnight(y, m, d+1)
	}
	return from.UnixMicro(), to.UnixMicro()
}

// midnight is the first instant of a date. Where a change of the clock skips
// midnight, that is the change itself; where it repeats midnight, the first one.
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
	days := map[CalendarUnit]int64{Day: 1, Week: 7, Month: 31, Year: 366}[c.unit]
	return (days*24 + 2) * time.Hour.Microseconds()
}
