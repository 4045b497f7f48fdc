// Package webtest is the conformance suite of the shop's HTTP API. It runs against the shop
// and against the proxies in front of it.
//
//	webtest.Contract(t, webtest.Target{Shop: "http://127.0.0.1:8088", Office: …, Name: …, Password: …})
//
// It creates the sales that it needs, and takes some seconds.
package webtest

import (
	"net/http"
	"testing"
	"time"
)

// A Target is a running flash sale. Shop and Office are base URLs; Name and Password belong to
// a merchant, for whom the suite creates sales.
type Target struct {
	Shop   string // the shop or the proxy under test
	Office string

	Name, Password string

	// Transport makes the connections; http.DefaultTransport if nil.
	Transport http.RoundTripper

	// From sets the client address of a request to the i-th one, for example by a field that
	// the target trusts. If it is nil, all requests have one address, and the suite waits when
	// the limit per address refuses them.
	From func(r *http.Request, i int)

	// Default says that the target has the default policies: 20/s burst 40 per address, 2/s
	// burst 5 per user, one order at a time. Without it the suite does not test the limits.
	Default bool

	// Rewrites says that the target may normalize a path, so that another spelling of a path
	// can return the page instead of 404.
	Rewrites bool
}

// Contract tests what API.md documents for the shop: every status with its body and fields,
// untrusted input, and equal responses to repeated requests.
func Contract(t *testing.T, target Target) {
	t.Helper()
	s := &suite{Target: target}
	if s.Transport == nil {
		s.Transport = http.DefaultTransport
	}
	o := s.signIn(t)
	soon := o.expose(t, saleConfig{Title: "Soon", Stock: 3, StartsIn: time.Hour, Campaign: "spring-tea"})
	held := o.expose(t, saleConfig{Title: "Held", Stock: 3, StartsIn: time.Hour})
	o.post(t, "/api/sales/"+held+"/pause", "", http.StatusOK)
	over := o.expose(t, saleConfig{Title: "Over", Stock: 3, StartsIn: time.Hour})
	o.post(t, "/api/sales/"+over+"/end", "", http.StatusOK)
	line := o.expose(t, saleConfig{Title: `A "line" & <more> 队`, Stock: 4, StartsIn: startDelay, Address: "optional"})
	direct := o.expose(t, saleConfig{Title: "Direct", Stock: 1, StartsIn: startDelay, Queue: "direct"})
	costly := o.expose(t, saleConfig{Title: "Costly", Stock: 3, StartsIn: startDelay, Work: 10})

	t.Run("session", func(t *testing.T) { s.session(t) })
	t.Run("views", func(t *testing.T) { s.views(t, soon) })
	t.Run("campaign", func(t *testing.T) { s.campaign(t, o, soon) })
	t.Run("closed", func(t *testing.T) { s.closed(t, soon, held, over) })
	t.Run("strict", func(t *testing.T) { s.strict(t, soon) })
	t.Run("paths", func(t *testing.T) { s.paths(t, soon) })
	t.Run("trust", func(t *testing.T) { s.trust(t) })
	t.Run("buy", func(t *testing.T) { s.buy(t, line) })
	t.Run("work", func(t *testing.T) { s.work(t, costly, line) })
	t.Run("board", func(t *testing.T) { o.board(t, line) })
	t.Run("sold out", func(t *testing.T) { s.soldOut(t, direct) })
	if s.Default {
		t.Run("limits", func(t *testing.T) { s.limits(t, soon) })
	}
}
