package layers

import (
	"errors"
	"net/http"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/guard"
)

// errRefused ends a call of L4 that L1 or L2 refused. Its duration is not measured.
var errRefused = errors.New("layers: refused")

// record holds what is counted about one request. It wraps the ResponseWriter.
type record struct {
	http.ResponseWriter
	next   func(http.ResponseWriter, *http.Request)
	passed bool // L1 and L2
	layer  sale.Layer
	reason sale.Reason
	wrote  bool

	challenge func() (Refusal, bool) // what a request can do instead of waiting; nil for nothing
	replaced  bool                   // the response is a challenge: the policy's body is dropped
	writing   bool                   // the challenge is being written
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (c *record) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader records the layer of a refusal by the policies.
func (c *record) WriteHeader(status int) {
	if status == http.StatusTooManyRequests && !c.wrote && !c.passed && c.challenge != nil && c.Header().Get(workHeader) != "" {
		if f, can := c.challenge(); can {
			c.replace(f)
			return
		}
	}
	if status >= http.StatusOK && !c.wrote {
		c.wrote = true
		if !c.passed && c.layer == "" {
			c.blame(status)
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// replace writes a challenge instead of a denial.
func (c *record) replace(f Refusal) {
	h := c.Header()
	h.Del("Retry-After")
	h.Del("Content-Length")
	c.replaced, c.writing = true, true
	f.Write(c)
	c.writing = false
}

// Write writes a body, unless a challenge has replaced it.
func (c *record) Write(b []byte) (int, error) {
	if c.replaced && !c.writing {
		return len(b), nil
	}
	return c.ResponseWriter.Write(b)
}

// blame sets the layer of a refusal by the policies.
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

// Serve applies L4, L1 and L2 in this order, calls next if they admit r, and counts the
// outcome. next receives w in a wrapper.
func (l *Layers) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request)) {
	l.ServeOrChallenge(w, r, nil, next)
}

// ServeOrChallenge is Serve. If a policy denies r and adds Flashsale-Work to its response, the
// response is the refusal that challenge returns, unless it returns false.
func (l *Layers) ServeOrChallenge(w http.ResponseWriter, r *http.Request, challenge func() (Refusal, bool), next func(http.ResponseWriter, *http.Request)) {
	l.counts.requests.Add(1)
	c := l.spare.Get().(*record)
	*c = record{ResponseWriter: w, next: next, challenge: challenge}
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

// Wrap returns a handler that calls Serve with next.
func (l *Layers) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Serve(w, r, next.ServeHTTP) })
}

// Refuse writes a refusal of L0 and counts it.
func (l *Layers) Refuse(w http.ResponseWriter, f Refusal) {
	f.Layer = sale.L0
	l.counts.requests.Add(1)
	l.counts.refuse(f.Layer, f.Reason)
	f.Write(w)
}

// admitted calls the next handler of a request that the policies admitted.
func admitted(w http.ResponseWriter, r *http.Request) {
	c := recordOf(w)
	c.passed = true
	c.next(w, r)
}

// recordOf returns the record that w wraps, or nil.
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

// note records the layer and the reason of a refusal in the record of w, if there is one.
func note(w http.ResponseWriter, layer sale.Layer, reason sale.Reason) {
	if c := recordOf(w); c != nil && !c.wrote {
		c.layer, c.reason = layer, reason
	}
}
