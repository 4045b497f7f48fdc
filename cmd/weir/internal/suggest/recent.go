package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/policy"
)

// A Recent collects recent use: at least half of a window, and at most all of it. Its zero
// value has no window; set it before the first Add.
type Recent struct {
	Window time.Duration

	older, newer *Analysis // newer is nil in the first half of the first window
	turn         int64     // when newer becomes older, in µs
}

// Add records a request, as [Analysis.Add] does.
func (r *Recent) Add(e *accesslog.Entry, at int64) {
	half := r.Window.Microseconds() / 2
	switch {
	case r.older == nil:
		r.older, r.turn = New(), at+half
	case at >= r.turn+half: // nothing for half a window
		r.older, r.newer, r.turn = New(), nil, at+half
	case at >= r.turn:
		if r.newer != nil {
			r.older = r.newer
		}
		r.newer, r.turn = New(), r.turn+half
	}
	r.older.Add(e, at)
	if r.newer != nil {
		r.newer.Add(e, at)
	}
}

// Suggest derives policies from the recent use. An error wraps [weir.ErrInvalid].
func (r *Recent) Suggest(c Config) (*Suggestion, error) {
	if r.older == nil {
		return New().Suggest(c)
	}
	return r.older.Suggest(c)
}

// Limits are limits by the name of their policy, and by its name and the key of an override.
type Limits map[Place][]weir.Limit

// A Place is a policy, or the override of a key.
type Place struct {
	Policy string `json:"policy"`
	Key    string `json:"key,omitempty"`
}

// Limits returns the suggested limits.
func (s *Suggestion) Limits() (Limits, error) {
	all := Limits{}
	for _, p := range s.Policies {
		texts := map[Place][]string{{Policy: p.Name}: p.Limits}
		for _, o := range p.Overrides {
			texts[Place{p.Name, name(o.Client)}] = o.Limits
		}
		for place, list := range texts {
			for _, text := range list {
				l, err := weir.ParseLimit(text)
				if err != nil {
					return nil, err
				}
				all[place] = append(all[place], l)
			}
		}
	}
	return all, nil
}

// LimitsOf returns the limits of policies.
func LimitsOf(set *policy.Set) Limits {
	all := Limits{}
	for _, p := range set.Policies() {
		c := p.Config()
		all[Place{Policy: c.Name}] = c.Limits
		for _, o := range c.Overrides {
			if len(o.Key) == 1 {
				all[Place{c.Name, o.Key[0]}] = o.Limits
			}
		}
	}
	return all
}

// NamesOf returns the names of the policies that limit each client address, by the one route that they
// match; "" is the whole site.
func NamesOf(set *policy.Set) map[string]string {
	names := map[string]string{}
	for _, p := range set.Policies() {
		c := p.Config()
		m := c.Match
		route := strings.Join(m.Paths, " ") // no route has a space
		switch {
		case len(c.Key) != 1 || c.Key[0].Source != policy.ClientIP || len(m.Hosts)+len(m.Headers) > 0 || m.Where != nil:
		case slices.Contains(m.Methods, "GET") || route == "" && len(m.Methods) > 0: // a route is one of writes
		case names[route] == "":
			names[route] = c.Name
		}
	}
	return names
}

// A Change is a difference of limits. Before is empty for a new policy or override.
type Change struct {
	Place
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// String returns the change as one line.
func (c *Change) String() string {
	where := c.Policy
	if c.Key != "" {
		where += " for " + c.Key
	}
	side := func(limits []string) string { return cmp.Or(strings.Join(limits, ", "), "none") }
	return fmt.Sprintf("%s: %s -> %s", where, side(c.Before), side(c.After))
}

// Changes returns the limits after that differ by more than a share from those before, in the
// rate or the burst. Limits that are no longer suggested do not count: their clients or routes
// may only be quiet.
func Changes(before, after Limits, share float64) (all []Change) {
	for place := range after {
		if !similar(before[place], after[place], share) {
			all = append(all, Change{place, briefs(before[place]), briefs(after[place])})
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// similar reports whether limits differ by at most a share.
func similar(a, b []weir.Limit, share float64) bool {
	near := func(x, y float64) bool { return max(x, y) <= (1+share)*min(x, y) }
	return slices.EqualFunc(a, b, func(a, b weir.Limit) bool {
		if a.Period() == 0 || b.Period() == 0 { // of concurrency, or of a calendar
			return a.Brief() == b.Brief()
		}
		return near(float64(a.Count())/a.Period().Seconds(), float64(b.Count())/b.Period().Seconds()) && near(float64(a.Capacity()), float64(b.Capacity()))
	})
}

func briefs(limits []weir.Limit) []string {
	texts := []string{}
	for _, l := range limits {
		texts = append(texts, l.Brief())
	}
	return texts
}
