package transport

import (
	"context"
	"io"
	"net/http"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/internal/backoff"
	"github.com/floodweir/weir/policy"
)

// A Transport is an http.RoundTripper that limits requests.
type Transport struct {
	c        Config
	limiters []*weir.Limiter
	pacer    backoff.Pacer
}

// New returns a Transport. An error wraps weir.ErrInvalid and names the field, its value and
// what is accepted.
func New(c Config) (*Transport, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(c.Limits) > 0 && c.OnStoreError == policy.Local {
		local, err := failover.NewLocal(enforce.NewLocal(), 1)
		if err != nil {
			return nil, err
		}
		c.Store = failover.WithFallback(c.Store, local)
	}
	t := &Transport{c: c}
	t.pacer.Queue.Max = c.MaxWaiters
	t.pacer.Pauses.MaxKeys, t.pacer.Pauses.MaxPause = c.MaxPausedKeys, c.MaxPause
	for _, l := range c.Limits {
		lim, err := weir.New(c.Store, l, weir.Config{Prefix: c.Prefix})
		if err != nil {
			return nil, err
		}
		t.limiters = append(t.limiters, lim)
	}
	return t, nil
}

// RoundTrip sends r as soon as the limits admit it. It does not change r, and closes its body
// even if it is not sent.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q, err := t.describe(r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	paid, err := t.admit(r, &q)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	resp, err := t.send(r, r, &q, paid)
	for range t.c.Retries {
		if err != nil || !t.mayRepeat(r, resp, &q) {
			break
		}
		paid, denied := t.admit(r, &q)
		if r.Context().Err() != nil {
			t.giveBack(r.Context(), paid)
			resp.Body.Close()
			return nil, context.Cause(r.Context())
		}
		if denied != nil {
			break // the server's response is more specific
		}
		again, fault := repeat(r)
		if fault != nil {
			t.giveBack(r.Context(), paid)
			break
		}
		discard(resp)
		resp, err = t.send(again, r, &q, paid)
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of Base. An http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if b, ok := t.c.Base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

// send sends out, which is r or a copy of it, and records the pause that the server asks for.
func (t *Transport) send(out, r *http.Request, q *call, paid charge) (*http.Response, error) {
	s := attempt{t: t, r: r, q: q}
	if len(t.limiters) > 0 {
		out = s.trace(out)
	}
	resp, err := t.c.Base.RoundTrip(out)
	if denied := s.end(); denied != nil {
		if resp != nil {
			resp.Body.Close()
		}
		return nil, denied
	}
	if err != nil {
		if t.c.ReturnUnsent && s.unsent(err) {
			t.giveBack(r.Context(), paid)
		}
		return nil, err
	}
	if resp == nil {
		return nil, errNoResponse
	}
	if resp.Request == out {
		resp.Request = r
	}
	if resp.Body == nil {
		resp.Body = http.NoBody // as an http.Client requires
	}
	if !t.c.IgnoreServer {
		wait, _ := RetryAfter(resp)
		t.pacer.Pauses.Set(q.key, wait)
	}
	return resp, nil
}

// mayRepeat reports whether r may be sent again after the server answered it with resp.
func (t *Transport) mayRepeat(r *http.Request, resp *http.Response, q *call) bool {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	wait, ok := RetryAfter(resp)
	return ok && wait <= t.c.MaxPause && q.allows(r.Context(), wait) && repeatable(r)
}

// repeatable reports whether r can be sent twice, with the same effect as once.
func repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// repeat returns r with a fresh body.
func repeat(r *http.Request) (*http.Request, error) {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again, nil
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// discard closes a response that the caller does not get. A short one is read to its end, so
// that its connection can be reused.
func discard(resp *http.Response) {
	const short = 2 << 10
	if 0 <= resp.ContentLength && resp.ContentLength <= short {
		_, _ = io.CopyN(io.Discard, resp.Body, short)
	}
	resp.Body.Close()
}
