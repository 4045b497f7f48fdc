package suggest

import (
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
)

// A rate is one of the rates of an envelope.
type rate struct {
	text      string
	perSecond float64
}

// rates grow by factors of about 1.5 to 2.
var rates = [...]rate{
	{"1/m", 1. / 60}, {"2/m", 2. / 60}, {"3/m", 3. / 60}, {"5/m", 5. / 60}, {"10/m", 10. / 60}, {"15/m", 15. / 60},
	{"20/m", 20. / 60}, {"30/m", 30. / 60}, {"1/s", 1}, {"90/m", 1.5}, {"2/s", 2}, {"3/s", 3},
	{"4/s", 4}, {"5/s", 5}, {"7/s", 7}, {"10/s", 10}, {"15/s", 15}, {"20/s", 20},
	{"30/s", 30}, {"50/s", 50}, {"100/s", 100}, {"200/s", 200}, {"500/s", 500}, {"1000/s", 1000},
}

// floodRate is the index of the rate at which bursts count as floods.
const floodRate = 17

// An envelope has the smallest burst that admits all requests, at each rate.
type envelope struct {
	last  int64 // in µs
	level [len(rates)]float32
	burst [len(rates)]float32
	n     int32
}

// add records a request. Requests must be in order.
func (v *envelope) add(at int64, cost float32) {
	since := float64(at-v.last) / 1e6
	if v.n == 0 {
		since = 0
	}
	v.last, v.n = at, v.n+1
	for i := range rates {
		b := max(0, v.level[i]-float32(rates[i].perSecond*since)) + cost
		v.level[i], v.burst[i] = b, max(v.burst[i], b)
	}
}

// block is the number of gaps whose variation is measured together.
const block = 32

// A client is an address, or a prefix of 64 bits for IPv6.
type client struct {
	envelope
	windows      [len(periods)]window
	failed       int32  // 401, 403, 404 and 429
	agents       uint64 // a bitmap of user agents
	denied       denials
	paths        [16]uint64
	gaps         int32
	sum, squares float64 // of the gaps of a block, in s
	even, blocks int32   // blocks with a variation below 0.5, and all
	onRoute      map[string]*routeUse
}

// A routeUse is the use of one route by one client.
type routeUse struct {
	envelope
	failed int32
}

// A route is a path whose variable segments are collapsed.
type route struct {
	requests, writes int
	clients          int
}

const (
	maxClients = 200_000
	maxRoutes  = 1000
)

// An Analysis collects the use of clients.
type Analysis struct {
	Requests int
	Dropped  int // requests of clients beyond the first 200,000, or without an address

	clients     map[netip.Prefix]*client
	routes      map[string]*route
	seed        maphash.Seed
	first, last int64 // arrivals, in µs
}

// New returns an empty analysis.
func New() *Analysis {
	return &Analysis{clients: map[netip.Prefix]*client{}, routes: map[string]*route{}, seed: maphash.MakeSeed()}
}

// Add records a request at an instant in µs. Requests must be in order of arrival.
func (a *Analysis) Add(e *accesslog.Entry, at int64) {
	if a.Requests++; a.Requests == 1 {
		a.first = at
	}
	a.last = at
	p := prefix(e.Client)
	c := a.clients[p]
	if c == nil {
		if !p.IsValid() || len(a.clients) == maxClients {
			a.Dropped++
			return
		}
		c = &client{}
		a.clients[p] = c
	}
	if c.n > 0 {
		c.gap(float64(at-c.last) / 1e6)
	}
	c.add(at, float32(e.Cost))
	for i := range c.windows {
		c.windows[i].add(at, periods[i].us, float32(e.Cost))
	}
	if e.Agent != "" {
		c.agents |= 1 << (maphash.String(a.seed, e.Agent) % 64)
	}
	failed := e.Status == 401 || e.Status == 403 || e.Status == 404 || e.Status == 429
	if failed {
		c.failed++
	}
	text, _, _ := strings.Cut(e.Path, "?")
	h := maphash.String(a.seed, e.Path)
	c.paths[h>>6%16] |= 1 << (h % 64)
	name := Collapse(text)
	if e.Status == 429 {
		c.denied.add(name, at, e)
	}
	r := a.routes[name]
	if r == nil {
		if len(a.routes) == maxRoutes {
			return
		}
		r = &route{}
		a.routes[name] = r
	}
	r.requests++
	switch e.Method {
	case "POST", "PUT", "PATCH", "DELETE":
		r.writes++
	default:
		return // limited with the whole site
	}
	u := c.onRoute[name]
	if u == nil {
		if c.onRoute == nil {
			c.onRoute = map[string]*routeUse{}
		}
		u = &routeUse{}
		c.onRoute[name] = u
		r.clients++
	}
	u.add(at, float32(e.Cost))
	if failed {
		u.failed++
	}
}

// prefix returns the bucket of an address under the key client.ip.
func prefix(a netip.Addr) netip.Prefix {
	n := 32
	if a.Is6() {
		n = 64
	}
	p, _ := a.Prefix(n) // invalid for an invalid address
	return p
}

// session is the gap that separates sessions, in s.
const session = 30 * 60

// denials counts the requests to a route that come inside the Retry-After of a response, and
// are denied again.
type denials struct {
	route       string
	read, until int64 // from when the client knows, and until when it should wait, in µs
	early       int32
	ignores     bool // tooEarly such requests inside one Retry-After
}

// tooEarly is the number of requests inside one Retry-After that shows that a client ignores it.
const tooEarly = 10

// add records a denial. Requests in the first second may have been sent before the response.
func (d *denials) add(route string, at int64, e *accesslog.Entry) {
	switch {
	case at >= d.until && e.RetryAfter > 0:
		d.route, d.read, d.early = route, at+max(0, e.Duration)+1e6, 0
		d.until = at + max(0, e.Duration) + e.RetryAfter
	case at >= d.read && at < d.until && route == d.route:
		d.early++
		d.ignores = d.ignores || d.early >= tooEarly
	}
}

// manyAgents is the number of user agents that suggests several users of one address.
const manyAgents = 8

// users estimates the number of user agents, by linear counting.
func (c *client) users() int {
	return int(64*math.Log(64/float64(max(1, 64-bits.OnesCount64(c.agents)))) + .5)
}

// gap records the time between two requests.
func (c *client) gap(s float64) {
	if s > session {
		return
	}
	c.gaps, c.sum, c.squares = c.gaps+1, c.sum+s, c.squares+s*s
	if c.gaps < block {
		return
	}
	mean := c.sum / block
	if deviation := math.Sqrt(max(0, c.squares/block-mean*mean)); deviation < mean/2 {
		c.even++
	}
	c.blocks++
	c.gaps, c.sum, c.squares = 0, 0, 0
}

// distinct estimates the number of distinct paths, by linear counting.
func (c *client) distinct() float64 {
	const m = 64 * 16
	zero := m
	for _, word := range c.paths {
		zero -= bits.OnesCount64(word)
	}
	return m * math.Log(m/max(1, float64(zero)))
}

// maxSegments bounds the depth of routes.
const maxSegments = 4

// Collapse returns the route of a path: the segments before the first variable one, which is a
// number, a hexadecimal id or a UUID, and a star.
func Collapse(path string) string {
	var kept []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		if len(kept) == maxSegments || variable(segment) {
			return "/" + strings.Join(append(kept, "*"), "/")
		}
		kept = append(kept, segment)
	}
	return "/" + strings.Join(kept, "/")
}

// variable reports whether a segment of a path is an id, or cannot be in a pattern.
func variable(s string) bool {
	special := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`*?[]{}\%;:"'#`, c) }
	if len(s) > 40 || s == "." || s == ".." || strings.ContainsFunc(s, special) {
		return true
	}
	digits := 0
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F', c == '-':
		default:
			return false
		}
	}
	return digits == len(s) || digits > 0 && len(s) >= 8
}
