package layers

import (
	"errors"
	"net/http"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/guard"
)

// errRefused ends a call of L4 that L1 or L2 refused: how long it took says nothing.
var errRefused = errors.New("layers: refused")

// A record is the account of one request, on its way with the ResponseWriter.
type record struct {
	http.ResponseWriter
	next   func(http.ResponseWriter, *http.Request)
	passed bool // L1 and L2
	layer  sale.Layer
	reason sale.Reason
	wrote  bool
}

// Unwrap is for http.ResponseController.
func (c *record) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader notes who refused what did not pass.
func (c *record) WriteHeader(status int) {
	if status >= http.StatusOK && !c.wrote {
		c.wrote = true
		if !c.passed && c.layer == "" {
			c.blame(status)
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// blame names the layer of an answer of the policies.
func (c *record) blame(status int) {
	h := c.ResponseWriter.Header()
	c.layer, c.reason = sale.Layer(h.Get(LayerHeader)), TooMany
	if c.layer == "" {
		c.layer = sale.L1
		h[LayerHeader] = layerValues[sale.L1]
	}
	if status == http.StatusServiceUnavailable {
		c.reason = Unavailable
	}
}

// Serve is next behind L4, L1 and L2, in this order, and counts what becomes of r. next
// gets w in a wrapper.
func (l *Layers) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request)) {
	l.counts.requests.Add(1)
	c := l.spare.Get().(*record)
	*c = record{ResponseWriter: w, next: next}
	defer func() {
		if c.layer != "" {
			l.counts.refuse(c.layer, c.reason)
		} else {
			l.counts.admitted.Add(1)
		}
		*c = record{}
		l.spare.Put(c)
	}()
	entry, err := l.registry.Enter(r.Context(), shopRule, "")
	if err != nil && !guard.FailsOpen(err) {
		Refusal{Layer: sale.L4, Reason: sale.Overloaded}.Write(c)
		return
	}
	defer func() {
		if c.passed {
			entry.Exit(nil)
		} else {
			entry.Exit(errRefused)
		}
	}()
	l.now.Load().handler.ServeHTTP(c, r)
}

// Wrap is Serve as a handler.
func (l *Layers) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Serve(w, r, next.ServeHTTP) })
}

// Refuse answers a request that came no further than L0, and counts it.
func (l *Layers) Refuse(w http.ResponseWriter, f Refusal) {
	f.Layer = sale.L0
	l.counts.requests.Add(1)
	l.counts.refuse(f.Layer, f.Reason)
	f.Write(w)
}

// admitted is what the policies let a request through to.
func admitted(w http.ResponseWriter, r *http.Request) {
	c := recordOf(w)
	c.passed = true
	c.next(w, r)
}

// recordOf finds the record below what wraps it; nil if there is none.
func recordOf(w http.ResponseWriter) *record {
	for {
		switch v := w.(type) {
		case *record:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// note tells the record of w, if there is one, who refused.
func note(w http.ResponseWriter, layer sale.Layer, reason sale.Reason) {
	if c := recordOf(w); c != nil && !c.wrote {
		c.layer, c.reason = layer, reason
	}
}
