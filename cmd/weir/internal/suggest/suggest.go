package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/floodweir/weir"
)

// A Config configures Suggest. Its zero value works.
type Config struct {
	// Good reports whether an address is that of a client that should not be denied. Such a
	// client is no abuser. None is known if nil.
	Good func(netip.Addr) bool

	// Min and Max bound the limits of policies and overrides.
	Min, Max Bound

	// Names has the names of the policies in force by route; "" is the whole site. See NamesOf.
	Names map[string]string
}

const (
	minRequests = 10 // of an active client
	minActive   = 20 // active clients, for a percentile
	minLevels   = 50 // clients of a route
	maxLimits   = 10 // routes with a limit of their own
)

// ErrTooLittle reports too few clients.
var ErrTooLittle = errors.New("not enough traffic for percentiles")

// A Reason says why a client above the limit is an abuser.
type Reason string

// The reasons.
const (
	// Failures means that more than half of the responses have status 401, 403, 404 or 429.
	Failures Reason = "failures"
	// Scraping means even gaps over 500 paths or more.
	Scraping Reason = "scraping"
	// Flood means a burst, at 20/s, of over four times the 95th percentile.
	Flood Reason = "flood"
	// Retries means ten requests inside one Retry-After that were denied again.
	Retries Reason = "retries"
)

// A Suggestion has policies and what they would affect.
type Suggestion struct {
	Requests int      `json:"requests"`
	Clients  int      `json:"clients"`
	Active   int      `json:"active_clients"`
	Dropped  int      `json:"dropped"`
	Policies []Policy `json:"policies"`
}

// A Policy is a suggested limit, of a route or the whole site.
type Policy struct {
	Name      string     `json:"policy"`
	Paths     []string   `json:"paths,omitempty"`
	Methods   []string   `json:"methods,omitempty"`
	Limits    []string   `json:"limits"`
	Levels    []Level    `json:"levels"`
	Abusers   []Abuser   `json:"abusers"`
	Overrides []Override `json:"overrides"`
}

// A Level is the limit that admits everything of a share of the clients.
type Level struct {
	Name     string   `json:"percentile"`
	Limits   []string `json:"limits"`
	Clients  int      `json:"clients"`  // above the limit
	Requests int      `json:"requests"` // of these clients; the limit denies a part of them
	Good     int      `json:"good_clients"`
}

// An Abuser is a client above the limit that does harm.
type Abuser struct {
	Client   netip.Prefix `json:"client"`
	Requests int          `json:"requests"`
	Reasons  []Reason     `json:"reasons"`
}

// An Override is the limit of a client that is above the limit without harm.
type Override struct {
	Client netip.Prefix `json:"client"`
	Limits []string     `json:"limits"`
	Agents int          `json:"user_agents"` // an estimate; many suggest a shared address
}

// levels are the percentiles of the table.
var levels = []struct {
	name  string
	share float64
}{{"p95", .95}, {"p97", .97}, {"p99", .99}, {"p99.9", .999}, {"max", 1}}

// A use is the envelope of a client, of a route or the whole site.
type use struct {
	prefix netip.Prefix
	*envelope
	windows *[len(periods)]window // nil for a route
	client  *client
	failed  int32
}

// Suggest derives policies. An error wraps [weir.ErrInvalid].
func (a *Analysis) Suggest(c Config) (*Suggestion, error) {
	s := &Suggestion{Requests: a.Requests, Clients: len(a.clients), Dropped: a.Dropped}
	var all []use
	for _, p := range slices.SortedFunc(maps.Keys(a.clients), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
		if v := a.clients[p]; v.n >= minRequests {
			all = append(all, use{p, &v.envelope, &v.windows, v, v.failed})
		}
	}
	if s.Active = len(all); s.Active < minActive {
		return nil, fmt.Errorf("log: %w: got %d clients with %d requests or more, want %d: %w", weir.ErrInvalid, s.Active, minRequests, minActive, ErrTooLittle)
	}
	flood := 4 * quantile(all, .95, func(u *use) float32 { return u.burst[floodRate] })
	site := Policy{Name: cmp.Or(c.Names[""], "per-client")}
	if err := a.suggest(&site, all, flood, &c); err != nil {
		return nil, err
	}
	for _, name := range a.written() {
		var some []use
		for _, p := range slices.SortedFunc(maps.Keys(a.clients), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
			v := a.clients[p]
			if u := v.onRoute[name]; u != nil {
				some = append(some, use{p, &u.envelope, nil, v, u.failed})
			}
		}
		p := Policy{Name: cmp.Or(c.Names[name], policyName(name)), Paths: []string{name}, Methods: []string{"POST", "PUT", "PATCH", "DELETE"}}
		if err := a.suggest(&p, some, math.Inf(1), &c); err != nil {
			return nil, err
		}
		s.Policies = append(s.Policies, p)
	}
	s.Policies = append(s.Policies, site)
	return s, nil
}

// written returns the routes that clients mostly write to, such as logins: a few requests of
// these do more harm than many that read. The busiest ones come first.
func (a *Analysis) written() (names []string) {
	for name, r := range a.routes {
		if 2*r.writes > r.requests && r.clients >= minLevels {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(a.routes[y].requests-a.routes[x].requests, strings.Compare(x, y))
	})
	return names[:min(len(names), maxLimits)]
}

// suggest sets the limits of the policy of a route or of the whole site.
func (a *Analysis) suggest(p *Policy, all []use, flood float64, c *Config) error {
	p.Abusers, p.Overrides = []Abuser{}, []Override{}
	good := func(u *use) bool { return c.Good != nil && c.Good(u.prefix.Addr()) }
	free, err := (&Config{}).bounds(p.Name)
	if err != nil {
		return err
	}
	for _, l := range levels {
		f := free.of(all, l.share, 1, a.last-a.first)
		level := Level{Name: l.name, Limits: f.texts()}
		for i := range all {
			if u := &all[i]; !f.admits(u) {
				level.Clients++
				level.Requests += int(u.n)
				if good(u) {
					level.Good++
				}
			}
		}
		p.Levels = append(p.Levels, level)
	}
	b, err := c.bounds(p.Name)
	if err != nil {
		return err
	}
	f := b.of(all, .95, 2, a.last-a.first)
	p.Limits = f.texts()
	for i := range all {
		u := &all[i]
		if f.admits(u) {
			continue
		}
		if reasons := u.harm(flood); len(reasons) > 0 && !good(u) {
			p.Abusers = append(p.Abusers, Abuser{u.prefix, int(u.n), reasons})
			continue
		}
		if own := b.override(u, f); own != f { // the same if Max bounds both
			p.Overrides = append(p.Overrides, Override{u.prefix, own.texts(), u.client.users()})
		}
	}
	slices.SortStableFunc(p.Abusers, func(a, b Abuser) int { return b.Requests - a.Requests })
	return nil
}

// harm returns the reasons for which a client above the limit is an abuser.
func (u *use) harm(flood float64) (reasons []Reason) {
	if 2*u.failed > u.n {
		reasons = append(reasons, Failures)
	}
	if v := u.client; 2*v.even > v.blocks && v.distinct() >= 500 {
		reasons = append(reasons, Scraping)
	}
	if float64(u.client.burst[floodRate]) > flood {
		reasons = append(reasons, Flood)
	}
	if u.client.denied.ignores {
		reasons = append(reasons, Retries)
	}
	return reasons
}

// policyName returns a name for the policy of a route.
func policyName(route string) string {
	var b strings.Builder
	for _, c := range route {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && c != '*':
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	return "write-" + cmp.Or(name[:min(len(name), 50)], "all")
}
