package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/protect"
)

// A proxy forwards the requests of one route.
type proxy struct {
	gateway  *Gateway
	upstream *upstream
	route    Route
	target   *url.URL
	prefix   string // escaped, of all paths at the target
	reverse  httputil.ReverseProxy

	plain     *direct   // sends requests without reverse; nil if reverse sends all
	exchanges sync.Pool // of *plainExchange
}

// ServeHTTP forwards r, which the limits have admitted.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.route.MaxBody > 0 {
		if r.ContentLength > p.route.MaxBody {
			protect.FromContext(r.Context()).Cancel()
			tooLarge(w)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, p.route.MaxBody)
	}
	timed := &deadlineWriter{w, http.NewResponseController(w), p.gateway.send}
	done, s, left := p.forwardPlain(timed, r)
	if done {
		return
	}
	defer s.end()
	x := newExchange(w, r, left)
	parent := context.WithValue(r.Context(), exchangeKey{}, x)
	if s != nil {
		parent = context.WithValue(parent, sentKey{}, s)
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	x.start(cancel)
	defer x.stop()
	out := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = x.watch(r.Body, r.ContentLength)
	}
	w = timed
	if upgrade := r.Header["Upgrade"]; upgradeAllowed(upgrade) {
		w = &upgradeWriter{w, p.route.Timeout}
	} else if upgrade != nil {
		out.Header = r.Header.Clone()
		out.Header.Del("Upgrade")
	}
	defer func() { // also if ReverseProxy panics, because the upstream broke off
		if x.sized {
			timed.FlushError() // the server would write the rest without a deadline, or drop it
		}
	}()
	p.reverse.ServeHTTP(w, out)
}

// rewrite addresses the request to the upstream. ReverseProxy has already removed the
// hop-by-hop, Forwarded and X-Forwarded-* fields.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.target)
	if p.route.PassHost {
		r.Out.Host = r.In.Host
	}
	p.gateway.forward(r)
	if _, ok := r.Out.Header["User-Agent"]; !ok {
		r.Out.Header.Set("User-Agent", "") // prevents the default of Transport
	}
}

// failed writes the response for an upstream that failed.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := r.Context().Value(exchangeKey{}).(*exchange)
	x.stop()
	x.closeEarly()
	p.respondFailed(w, r, x.bodyError(), err)
}

// respondFailed writes the response for an error of the upstream, or of reading the client's body.
func (p *proxy) respondFailed(w http.ResponseWriter, r *http.Request, client, err error) {
	var large *http.MaxBytesError
	if client != nil {
		protect.FromContext(r.Context()).Cancel() // the upstream did not fail
	}
	switch {
	case errors.As(client, &large):
		tooLarge(w)
		return
	case errors.Is(client, os.ErrDeadlineExceeded):
		problem.Write(w, problem.Problem{Status: http.StatusRequestTimeout, Detail: "request body incomplete: the client stopped sending"})
		return
	case client != nil:
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: "request body not received"})
		return
	}
	status, detail := http.StatusBadGateway, "upstream unreachable"
	var timeout net.Error
	switch {
	case errors.Is(err, errTimeout), errors.Is(context.Cause(r.Context()), errTimeout):
		status, detail, err = http.StatusGatewayTimeout, "upstream timed out", errTimeout
	case r.Context().Err() != nil:
		p.gateway.log.Debug("client disconnected before its response", "upstream", p.upstream.name)
		w.WriteHeader(http.StatusBadGateway) // for the access log
		return
	case errors.As(err, &timeout) && timeout.Timeout():
		status, detail = http.StatusGatewayTimeout, "upstream timed out"
	}
	if ok, muted := p.upstream.failures.allow(time.Now()); ok {
		p.gateway.log.LogAttrs(r.Context(), slog.LevelError, "upstream failed",
			slog.String("upstream", p.upstream.name), slog.String("route", p.route.Host+p.route.Path),
			slog.Int("status", status), slog.Any("error", err), slog.Int("more_since_last", muted))
	}
	problem.Write(w, problem.Problem{Status: status, Detail: detail})
}

func tooLarge(w http.ResponseWriter) {
	problem.Write(w, problem.Problem{Status: http.StatusRequestEntityTooLarge, Detail: "request body too large"})
}
