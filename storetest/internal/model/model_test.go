package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// TestCalendarByHand checks that the windows that the steps of a day find, against dates
// that were looked up.
func TestCalendarByHand(t *testing.T) {
	for _, c := range []struct {
		unit           string
		zone           string
		first          int
		at, start, end string
	}{
		{"day", "UTC", 0, "2026-02-28T23:59:59.999999Z", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"day", "Europe/Berlin", 0, "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"day", "Africa/Cairo", 0, "2026-04-24T12:00:00+03:00", "2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"},
		{"day", "America/Havana", 0, "2026-11-01T12:00:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"day", "Australia/Lord_Howe", 0, "2026-10-04T12:00:00+11:00", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00"},
		{"week", "Asia/Kathmandu", 0, "2027-01-01T00:00:00+05:45", "2026-12-28T00:00:00+05:45", "2027-01-04T00:00:00+05:45"},
		{"week", "UTC", 0, "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"month", "Asia/Shanghai", 0, "2028-02-29T23:59:59+08:00", "2028-02-01T00:00:00+08:00", "2028-03-01T00:00:00+08:00"},
		{"month", "America/New_York", 0, "2026-03-20T00:00:00-04:00", "2026-03-01T00:00:00-05:00", "2026-04-01T00:00:00-04:00"},
		{"month", "Europe/Berlin", 31, "2026-02-27T23:59:59+01:00", "2026-01-31T00:00:00+01:00", "2026-02-28T00:00:00+01:00"},
		{"month", "Europe/Berlin", 31, "2026-02-28T00:00:00+01:00", "2026-02-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00"},
		{"month", "UTC", 15, "2027-01-14T23:59:59Z", "2026-12-15T00:00:00Z", "2027-01-15T00:00:00Z"},
		{"year", "Europe/Berlin", 0, "2028-12-31T23:59:59+01:00", "2028-01-01T00:00:00+01:00", "2029-01-01T00:00:00+01:00"},
		{"year", "UTC", 0, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		us := func(text string) int64 {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return at.UnixMicro()
		}
		start, end := calendar(c.unit, zone, c.first)(us(c.at))
		if start != us(c.start) || end != us(c.end) {
			t.Errorf("%s of %s in %s = %v to %v, want %s to %s", c.unit, c.at, c.zone,
				time.UnixMicro(start).In(zone), time.UnixMicro(end).In(zone), c.start, c.end)
		}
	}
}

// TestDoAllPutsEverythingBack checks that a denied batch leaves a Model as it was, down to
// the last word of what it prints.
func TestDoAllPutsEverythingBack(t *testing.T) {
	m := New(1_767_225_600_000_000)
	var rs []weir.Request
	for i, text := range []string{
		"3/s", "3/s interval", "3/s warmup 1s", "3/s leaky_bucket burst 2", "3/s leaky_bucket burst 2 nginx",
		"3/s fixed_window", "3/s sliding_window weighted", "3/s sliding_log", "3 concurrency",
	} {
		l := weir.MustLimit(text)
		m.do(t, weir.Request{Verb: weir.Charge, Key: "k", Limit: l, N: 1})
		rs = append(rs,
			weir.Request{Key: "k", Limit: l, N: 1},
			weir.Request{Verb: weir.Charge, Key: "k", Limit: l, N: 5},
			weir.Request{Verb: weir.Return, Key: "k", Limit: l, N: 1},
			weir.Request{Verb: weir.Reserve, Key: fmt.Sprint("new", i), Limit: l, N: 1, ID: "id", TTL: time.Minute})
	}
	rs = append(rs, weir.Request{Key: "k", Limit: weir.MustLimit("1/s"), N: 2})
	before := dump(m)
	if ok, err := m.DoAll(t.Context(), rs, make([]weir.Decision, len(rs))); ok || err != nil {
		t.Fatalf("DoAll = %v, %v, want false", ok, err)
	}
	for key, was := range before {
		if now := dump(m)[key]; now != was {
			t.Errorf("%v was\n%s, is\n%s", key, was, now)
		}
	}
}

func (m *Model) do(t *testing.T, r weir.Request) {
	t.Helper()
	if _, err := m.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// dump returns all entries as text.
func dump(m *Model) map[name]string {
	all := map[name]string{}
	for k, e := range m.keys {
		state := fmt.Sprintf("%+v", e.state)
		switch s := e.state.(type) { // what prints as an address that does not matter
		case *window:
			state = fmt.Sprint(s.start, s.end, s.taken)
		case *leaky:
			state = fmt.Sprintf("%+v", *s.bucket)
		}
		all[k] = fmt.Sprint(state, e.state.Until(), e.reservations)
	}
	return all
}
