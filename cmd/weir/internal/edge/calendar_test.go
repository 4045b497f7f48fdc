package edge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// params are those of a rule at an instant in µs as the Lua makes them of a plan.
func params(p *edge.Plan, r edge.Rule, now int64) []int64 {
	if r.Calendar == 0 {
		return r.Params
	}
	c := p.Calendars[r.Calendar-1]
	i, found := slices.BinarySearch(c.Bounds, now/1e6)
	if !found {
		i--
	}
	if i < 1 || i+3 >= len(c.Bounds) {
		return nil
	}
	out := slices.Clone(r.Params)
	for j, b := range c.Bounds[i-1 : i+4] {
		out[c.At-1+j] = b * 1e6
	}
	return out
}

// TestCalendars: from a day before a plan is made, and for years, the windows of a plan
// are those of the rules; and they are few.
func TestCalendars(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, unit := range []string{"day", "week", "month", "year"} {
		for _, zone := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo", "America/St_Johns"} {
			l := weir.MustLimit(fmt.Sprintf("5/%s fixed_window calendar %s", unit, zone))
			pol, err := policy.New(policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{l}})
			if err != nil {
				t.Fatal(err)
			}
			set, err := policy.NewSet(pol)
			if err != nil {
				t.Fatal(err)
			}
			made := day.Add(time.Duration(rnd.Int64N(int64(10 * 365 * 24 * time.Hour))))
			p, err := edge.Compile(set, edge.Options{Now: made})
			if err != nil {
				t.Fatal(err)
			}
			years := 20
			if unit == "day" {
				years = 5
			}
			if n := len(p.JSON()) - len(redisstore.Script()); n > 32<<10 {
				t.Errorf("%s %s: a plan of %d bytes", unit, zone, n)
			}
			first, last := made.Add(-24*time.Hour), made.AddDate(years, 0, 0)
			check := func(at time.Time) {
				want := redisstore.Outline(l, at.UnixMicro()).Params
				if got := params(p, p.Rules[0], at.UnixMicro()); !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s %s made at %v: at %v the params are %v, want %v", seed, unit, zone, made, at, got, want)
				}
			}
			check(first)
			check(last)
			for range 200 {
				check(first.Add(time.Duration(rnd.Int64N(int64(last.Sub(first))))))
			}
			for _, b := range p.Calendars[0].Bounds[2 : len(p.Calendars[0].Bounds)-4] {
				check(time.Unix(b, 0))
				check(time.Unix(b, 0).Add(-time.Microsecond))
			}
		}
	}
}

// TestCalendarsOnce: limits of one zone and unit have their windows in common.
func TestCalendarsOnce(t *testing.T) {
	set := parse(t, `policies:
  - { name: a, key: client.ip, limits: [{ rate: 5/day, calendar: Europe/Berlin }, { rate: 6/day, calendar: Europe/Berlin }, { rate: 6/day, calendar: UTC }, 5/day] }
  - { name: b, key: client.ip, limits: [{ rate: 5/day, calendar: Europe/Berlin }, { rate: 5/week, calendar: Europe/Berlin }] }
`).Policies
	p, err := edge.Compile(set, edge.Options{Now: day})
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, r := range p.Rules {
		at = append(at, r.Calendar)
	}
	if got, want := fmt.Sprint(at, len(p.Calendars), p.Policies[1].Limits), "[1 1 2 0 3] 3 [1 5]"; got != want {
		t.Errorf("the calendars of the rules are %s, want %s", got, want)
	}
	if w := p.Rules[2].Window; w != 24*60*60 {
		t.Errorf("the window of a day of UTC is %d s, want a day", w)
	}
}
