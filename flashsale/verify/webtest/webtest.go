// Package webtest is the suite that every way to the shop runs over HTTP: the shop itself,
// and whatever stands in front of it.
//
//	webtest.Contract(t, webtest.Target{Shop: "http://127.0.0.1:8088", Office: …, Name: …, Password: …})
//
// It makes the sales that it needs at the office, and takes some seconds.
package webtest

import (
	"net/http"
	"testing"
)

// A Target is a running flash sale. Shop and Office are base URLs; Name and Password sign a
// merchant in at the office, where the suite makes the sales that it needs.
type Target struct {
	Shop   string // what is tested: the shop, or what stands in front of it
	Office string

	Name, Password string

	// Transport makes the connections; http.DefaultTransport if nil.
	Transport http.RoundTripper

	// From, if not nil, makes a request come from the i-th client's address, as by a field
	// that the target trusts. Without it all come from one, and the suite waits when that
	// is told to.
	From func(r *http.Request, i int)

	// Default says that the target has the default policies: 20/s burst 40 for each
	// address, 2/s burst 5 for each user, one order at a time. Only then these are tested.
	Default bool

	// Rewrites says that the target may spell a path anew before the shop sees it, so that
	// another spelling can be the path itself and not 404.
	Rewrites bool
}

// Contract tests what API.md says of the shop: every status with its body and fields, what
// a client sends that is not trusted, and that the same question gets the same answer.
func Contract(t *testing.T, target Target) {
	t.Helper()
	s := &suite{Target: target}
	if s.Transport == nil {
		s.Transport = http.DefaultTransport
	}
	o := s.signIn(t)
	soon := o.expose(t, sold{Title: "Soon", Stock: 3, StartsIn: hour})
	held := o.expose(t, sold{Title: "Held", Stock: 3, StartsIn: hour})
	o.post(t, "/api/sales/"+held+"/pause", "", http.StatusOK)
	over := o.expose(t, sold{Title: "Over", Stock: 3, StartsIn: hour})
	o.post(t, "/api/sales/"+over+"/end", "", http.StatusOK)
	line := o.expose(t, sold{Title: `A "line" & <more> 队`, Stock: 4, StartsIn: moment})
	direct := o.expose(t, sold{Title: "Direct", Stock: 1, StartsIn: moment, Queue: "direct"})
	costly := o.expose(t, sold{Title: "Costly", Stock: 3, StartsIn: moment, Work: 10})

	t.Run("session", func(t *testing.T) { s.session(t) })
	t.Run("views", func(t *testing.T) { s.views(t, soon) })
	t.Run("closed", func(t *testing.T) { s.closed(t, soon, held, over) })
	t.Run("strict", func(t *testing.T) { s.strict(t, soon) })
	t.Run("paths", func(t *testing.T) { s.paths(t, soon) })
	t.Run("trust", func(t *testing.T) { s.trust(t, soon) })
	t.Run("buy", func(t *testing.T) { s.buys(t, line) })
	t.Run("work", func(t *testing.T) { s.works(t, costly, line) })
	t.Run("sold out", func(t *testing.T) { s.soldOut(t, direct) })
	if s.Default {
		t.Run("limits", func(t *testing.T) { s.limits(t, soon) })
	}
}
