package suggest_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
)

// A traffic is a generated log and its planted abusers.
type traffic struct {
	entries []accesslog.Entry
	abusers map[netip.Addr]bool
}

// A source adds requests of one client.
type source struct {
	*rand.Rand
	t      *traffic
	client netip.Addr
	at     float64 // in s
}

const (
	begin = 1764000000 // in s
	hours = 2
	end   = hours * 3600
)

func (t *traffic) source(r *rand.Rand, n int, abuser bool) *source {
	a := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	if abuser {
		t.abusers[a] = true
	}
	return &source{r, t, a, r.Float64() * end}
}

func (s *source) request(method, path string, status int) {
	if s.at < end {
		s.t.entries = append(s.t.entries, accesslog.Entry{At: int64((begin + s.at) * 1e6), Client: s.client, Method: method, Path: path, Status: status, Cost: 1, Duration: -1})
	}
}

// jitter waits for about mean seconds, with a relative deviation.
func (s *source) jitter(mean, deviation float64) {
	s.at += mean * max(.05, 1+deviation*s.NormFloat64())
}

func (t *traffic) sort() *traffic {
	slices.SortStableFunc(t.entries, func(a, b accesslog.Entry) int { return cmp.Compare(a.At, b.At) })
	return t
}

// shop generates the log of a web shop: sessions of pages with assets, offices behind one
// address, partners, monitors and a search engine. Its abusers scrape the catalog, try
// passwords, flood and scan.
func shop(seed uint64) *traffic {
	r := rand.New(rand.NewPCG(seed, 1))
	t := &traffic{abusers: map[netip.Addr]bool{}}
	n := 0
	next := func(abuser bool) *source { n++; return t.source(r, n, abuser) }
	visit := func(s *source, pages int) {
		for p := range pages {
			s.request("GET", fmt.Sprintf("/items/%d", int(math.Exp(s.Float64()*8))), 200)
			for a := range 2 + s.IntN(10) {
				s.at += s.ExpFloat64() * .05
				s.request("GET", fmt.Sprintf("/static/%d.js", a), 200)
			}
			if p == 1 && s.IntN(3) == 0 {
				status := 200
				if s.IntN(6) == 0 {
					status = 401
				}
				s.request("POST", "/login", status)
			}
			s.at += math.Exp(2.5 + s.NormFloat64())
		}
	}
	for range 600 {
		s := next(false)
		for range 1 + s.IntN(2) {
			visit(s, 1+int(s.ExpFloat64()*6))
			s.at += 600 + s.ExpFloat64()*1800
		}
	}
	for range 5 { // offices
		s := next(false)
		for range 15 + s.IntN(30) {
			s.at = s.Float64() * end
			visit(s, 1+int(s.ExpFloat64()*8))
		}
	}
	for i := range 4 { // partners: steady, few paths
		s := next(false)
		for s.at = 0; s.at < end; s.jitter([]float64{.7, 1, 3, 5}[i], .2) {
			s.request("GET", fmt.Sprintf("/api/stock?page=%d", s.IntN(40)), 200)
		}
	}
	for range 4 { // monitors
		s := next(false)
		for s.at = 0; s.at < end; s.at += 10 {
			s.request("GET", "/healthz", 200)
		}
	}
	for s := next(false); s.at < end; s.at += s.ExpFloat64() * 1.5 { // a search engine
		s.request("GET", fmt.Sprintf("/items/%d", s.IntN(5000)), cmp.Or(200*min(1, s.IntN(20)), 404))
	}
	intensity := 1 + float64(seed%3)
	for range 6 {
		s := next(true)
		s.at *= .8
		for i := range 800 + s.IntN(1500) {
			s.request("GET", fmt.Sprintf("/items/%d", i), 200)
			s.jitter(.3/intensity, .15)
		}
	}
	for range 6 {
		s := next(true)
		for s.at *= .8; s.at < end && s.IntN(700) > 0; s.jitter(2/intensity, .5) {
			s.request("POST", "/login", 401)
		}
		for range 60 {
			s.request("POST", "/login", 401)
			s.at++
		}
	}
	for range 6 {
		s := next(true)
		s.at *= .9
		for range 600 * int(intensity) {
			s.request("GET", "/", 200)
			s.at += s.ExpFloat64() / (80 * intensity)
		}
	}
	for range 4 {
		s := next(true)
		for range 1500 {
			s.request("GET", fmt.Sprintf("/%x/admin.php", s.Uint32()), cmp.Or(404*min(1, s.IntN(10)), 200))
			s.at += s.ExpFloat64() * .3 / intensity
		}
	}
	return t.sort()
}

// api generates the log of an API for mobile apps: devices that synchronize in bursts, batch
// jobs, webhooks, carrier gateways and polls. Its abusers enumerate ids, try tokens, flood in
// waves and copy data with uneven gaps.
func api(seed uint64) *traffic {
	r := rand.New(rand.NewPCG(seed, 2))
	t := &traffic{abusers: map[netip.Addr]bool{}}
	n := 1 << 16
	next := func(abuser bool) *source { n++; return t.source(r, n, abuser) }
	sync := func(s *source) {
		s.request("POST", "/oauth/token", 200)
		for range 5 + s.IntN(20) {
			s.at += s.Float64() * .15
			s.request("GET", fmt.Sprintf("/v1/messages/%d", s.IntN(100000)), 200)
		}
	}
	for range 500 {
		s := next(false)
		for s.at = s.Float64() * 1800; s.at < end; s.at += 1200 + 2400*s.Float64() {
			sync(s)
		}
	}
	for range 3 { // batch jobs, in pages of a few reports
		s := next(false)
		for s.at = s.Float64() * 600; s.at < end; s.at += 3000 {
			for p := range 900 {
				s.request("GET", fmt.Sprintf("/v1/export?page=%d", p%100), 200)
				s.jitter(.2, .1)
			}
		}
	}
	for range 3 { // webhooks
		for s := next(false); s.at < end; s.at += s.ExpFloat64() * .8 {
			s.request("POST", fmt.Sprintf("/v1/hooks/%d", s.IntN(30)), 202)
		}
	}
	for range 4 { // carrier gateways
		s := next(false)
		for range 40 {
			s.at = s.Float64() * end
			sync(s)
		}
	}
	for range 20 { // polls
		s := next(false)
		for s.at = s.Float64() * 100; s.at < end; s.jitter(15, .02) {
			s.request("GET", "/v1/status", 200)
		}
	}
	intensity := 1 + float64(seed%3)
	for range 5 { // enumerate
		s := next(true)
		for i := range 1200 {
			s.request("GET", fmt.Sprintf("/v1/users/%d", i), cmp.Or(404*min(1, s.IntN(4)), 200))
			s.jitter(.25/intensity, .3)
		}
	}
	for range 5 { // tokens
		s := next(true)
		for range 400 {
			s.request("POST", "/oauth/token", cmp.Or(401*min(1, s.IntN(5)), 200))
			s.at += s.ExpFloat64() * 1.5 / intensity
		}
	}
	for range 5 { // waves
		s := next(true)
		for range 4 {
			for range 400 {
				s.request("GET", "/v1/status", 200)
				s.at += .005 / intensity
			}
			s.at += 60 * s.Float64()
		}
	}
	for range 5 { // copy
		s := next(true)
		for i := range 1500 {
			s.request("GET", fmt.Sprintf("/v1/messages/%d", i), 200)
			s.jitter(.3/intensity, .35)
		}
	}
	return t.sort()
}
