package suggest

import (
	"cmp"
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
}

const (
	minRequests = 10 // of an active client
	minActive   = 20 // active clients, for a percentile
	minLevels   = 50 // clients of a route
	maxLimits   = 10 // routes with a limit of their own
)

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
	Limit     string     `json:"limit"`
	Levels    []Level    `json:"levels"`
	Abusers   []Abuser   `json:"abusers"`
	Overrides []Override `json:"overrides"`
}

// A Level is the limit that admits everything of a share of the clients.
type Level struct {
	Name     string `json:"percentile"`
	Limit    string `json:"limit"`
	Clients  int    `json:"clients"`  // above the limit
	Requests int    `json:"requests"` // of these clients; the limit denies a part of them
	Good     int    `json:"good_clients"`
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
	Limit  string       `json:"limit"`
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
	client *client
	failed int32
}

// Suggest derives policies. An error wraps [weir.ErrInvalid].
func (a *Analysis) Suggest(c Config) (*Suggestion, error) {
	s := &Suggestion{Requests: a.Requests, Clients: len(a.clients), Dropped: a.Dropped}
	var all []use
	for _, p := range slices.SortedFunc(maps.Keys(a.clients), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
		if v := a.clients[p]; v.n >= minRequests {
			all = append(all, use{p, &v.envelope, v, v.failed})
		}
	}
	if s.Active = len(all); s.Active < minActive {
		return nil, fmt.Errorf("log: %w: got %d clients with %d requests or more, want %d: not enough traffic for percentiles", weir.ErrInvalid, s.Active, minRequests, minActive)
	}
	flood := 4 * quantile(all, floodRate, .95)
	site := suggest(all, flood, c)
	site.Name = "per-client"
	for _, name := range a.written() {
		var some []use
		for _, p := range slices.SortedFunc(maps.Keys(a.clients), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
			v := a.clients[p]
			if u := v.onRoute[name]; u != nil {
				some = append(some, use{p, &u.envelope, v, u.failed})
			}
		}
		p := suggest(some, math.Inf(1), c)
		p.Name, p.Paths, p.Methods = policyName(name), []string{name}, []string{"POST", "PUT", "PATCH", "DELETE"}
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

// quantile returns the quantile of the bursts at a rate.
func quantile(all []use, rate int, share float64) float64 {
	bursts := make([]float32, len(all))
	for i, u := range all {
		bursts[i] = u.burst[rate]
	}
	slices.Sort(bursts)
	return float64(bursts[max(0, int(math.Ceil(share*float64(len(bursts))))-1)])
}

// choose returns the smallest rate whose burst lasts at most a minute.
func choose(burst func(rate int) float64) (rate int, size float64) {
	for i := range rates {
		if size = math.Ceil(burst(i)); size <= 60*rates[i].perSecond {
			return i, size
		}
	}
	return len(rates) - 1, size
}

func limit(rate int, burst float64) string {
	return fmt.Sprintf("%s burst %d", rates[rate].text, int64(max(1, burst)))
}

// suggest returns the policy of a route or of the whole site.
func suggest(all []use, flood float64, c Config) (p Policy) {
	p.Abusers, p.Overrides = []Abuser{}, []Override{}
	good := func(u *use) bool { return c.Good != nil && c.Good(u.prefix.Addr()) }
	for _, l := range levels {
		rate, burst := choose(func(i int) float64 { return quantile(all, i, l.share) })
		level := Level{Name: l.name, Limit: limit(rate, burst)}
		for i := range all {
			if u := &all[i]; float64(u.burst[rate]) > burst {
				level.Clients++
				level.Requests += int(u.n)
				if good(u) {
					level.Good++
				}
			}
		}
		p.Levels = append(p.Levels, level)
	}
	rate, burst := choose(func(i int) float64 { return 2 * quantile(all, i, .95) })
	p.Limit = limit(rate, burst)
	for i := range all {
		u := &all[i]
		if float64(u.burst[rate]) <= burst {
			continue
		}
		if reasons := u.harm(flood); len(reasons) > 0 && !good(u) {
			p.Abusers = append(p.Abusers, Abuser{u.prefix, int(u.n), reasons})
			continue
		}
		rate, burst := choose(func(i int) float64 { return 1.5 * float64(u.burst[i]) })
		p.Overrides = append(p.Overrides, Override{u.prefix, limit(rate, burst)})
	}
	slices.SortStableFunc(p.Abusers, func(a, b Abuser) int { return b.Requests - a.Requests })
	return p
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
