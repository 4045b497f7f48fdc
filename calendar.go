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

// midnight is the first instant of a date. Where a clock change skips midnight,
// time.Date may give an instant of the day before: the first instant of the date
// is then the change itself.
func (c calendar) midnight(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, c.zone)
	noon := time.Date(y, m, d, 12, 0, 0, 0, c.zone)
	if t.Day() != noon.Day() {
		_, t = t.ZoneBounds()
	}
	return t
}

// Longest implements [algo.Calendar].
func (c calendar) Longest() int64 {
	days := map[CalendarUnit]int64{Day: 1, Week: 7, Month: 31, Year: 366}[c.unit]
	return (days*24 + 2) * time.Hour.Microseconds()
}
