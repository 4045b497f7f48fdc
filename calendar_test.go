package weir

import (
	"testing"
	"time"
)

func TestCalendarWindow(t *testing.T) {
	for _, c := range []struct {
		unit             string
		zone, at         string
		start, endOfTime string
	}{
		{day, "UTC", "2026-11-21T08:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{day, "UTC", "2026-11-21T00:00:00Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{day, "Asia/Shanghai", "2026-11-21T17:00:00Z", "2026-11-21T16:00:00Z", "2026-11-22T16:00:00Z"},
		{day, "Europe/Berlin", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{day, "Europe/Berlin", "2026-10-25T10:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		{week, "UTC", "2026-11-21T08:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},          // a Saturday
		{week, "UTC", "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},          // a Sunday
		{week, "UTC", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{month, "Asia/Shanghai", "2026-02-28T15:59:59Z", "2026-01-31T16:00:00Z", "2026-02-28T16:00:00Z"},
		{month, "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{month, "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{year, "UTC", "2026-11-21T08:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		// Midnight does not exist: the day begins at one.
		{day, "America/Santiago", "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		// A whole day does not exist: the 30th of December 2011 in Samoa.
		{day, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, c.at)
		start, end := calendar{c.unit, zone, 1}.Window(at.UnixMicro())
		got := [2]string{time.UnixMicro(start).UTC().Format(time.RFC3339), time.UnixMicro(end).UTC().Format(time.RFC3339)}
		if want := [2]string{c.start, c.endOfTime}; got != want {
			t.Errorf("%s of %s at %s = %v, want %v", c.unit, c.zone, c.at, got, want)
		}
	}
}

// TestCalendarWindowsTile checks that windows follow each other without a gap, contain
// their instant, and are never longer than Longest, in every zone and through every change
// of its clock.
func TestCalendarWindowsTile(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Santiago", "Pacific/Apia", "Asia/Gaza", "Africa/Casablanca", "Australia/Lord_Howe", "America/Sao_Paulo", "Atlantic/Azores"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []calendar{{day, zone, 1}, {week, zone, 1}, {month, zone, 1}, {month, zone, 15}, {month, zone, 30}, {month, zone, 31}, {year, zone, 1}} {
			unit := c.unit
			now := time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
			for range 1500 {
				start, end := c.Window(now)
				if !(start <= now && now < end) || end-start > c.Longest() {
					t.Fatalf("%s of %s at %v = [%v, %v)", unit, name, time.UnixMicro(now).UTC(), time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC())
				}
				if s, e := c.Window(end - 1); s != start || e != end {
					t.Fatalf("%s of %s: the last instant of [%v, %v) is in [%v, %v)", unit, name, start, end, s, e)
				}
				if now = end; now > time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() {
					break
				}
			}
		}
	}
}

// TestBillingPeriods checks the windows of months that begin on another day than the first.
func TestBillingPeriods(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		day            int
		at, start, end string
	}{
		{15, "2026-01-14T23:59:59+01:00", "2025-12-15T00:00:00+01:00", "2026-01-15T00:00:00+01:00"},
		{15, "2026-01-15T00:00:00+01:00", "2026-01-15T00:00:00+01:00", "2026-02-15T00:00:00+01:00"},
		{15, "2026-12-31T12:00:00+01:00", "2026-12-15T00:00:00+01:00", "2027-01-15T00:00:00+01:00"},
		{15, "2026-04-01T00:00:00+02:00", "2026-03-15T00:00:00+01:00", "2026-04-15T00:00:00+02:00"},
		{31, "2026-01-31T00:00:00+01:00", "2026-01-31T00:00:00+01:00", "2026-02-28T00:00:00+01:00"},
		{31, "2026-02-28T00:00:00+01:00", "2026-02-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00"},
		{31, "2028-03-30T12:00:00+02:00", "2028-02-29T00:00:00+01:00", "2028-03-31T00:00:00+02:00"},
		{30, "2026-03-01T00:00:00+01:00", "2026-02-28T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := calendar{month, berlin, c.day}.Window(at.UnixMicro())
		got := [2]string{time.UnixMicro(start).In(berlin).Format(time.RFC3339), time.UnixMicro(end).In(berlin).Format(time.RFC3339)}
		if want := [2]string{c.start, c.end}; got != want {
			t.Errorf("day %d at %s: window %v, want %v", c.day, c.at, got, want)
		}
	}
}
