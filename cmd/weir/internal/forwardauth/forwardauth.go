package forwardauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/httplimit"
)

// Config describes a Handler. Limit is required.
type Config struct {
	// Limit puts a handler behind the limits, as httplimit.Middleware.Wrap does. The
	// requests that it judges come from the client: it has to take their RemoteAddr for
	// the client's address, and not to read a header for it.
	Limit func(http.Handler) http.Handler

	// Client says who may ask, and in which header it names the client's address. If it
	// trusts nobody, peers with an address of this machine (127.0.0.0/8, ::1) may.
	Client httplimit.ClientAddress

	// Log is told of what was refused before it was judged; nobody is if nil.
	Log *slog.Logger
}

// A Handler is an http.Handler, safe for concurrent use.
type Handler struct {
	client  httplimit.ClientAddress
	limited http.Handler
	log     *slog.Logger
	warned  atomic.Bool // of a peer that is not trusted
}

// New makes a handler.
func New(c Config) (*Handler, error) {
	if c.Limit == nil {
		return nil, errors.New("forwardauth: limit: want a middleware such as httplimit.Middleware.Wrap, got nil")
	}
	h := &Handler{client: c.Client, limited: c.Limit(http.HandlerFunc(admit)), log: c.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	denied := deniedStatus(r)
	if !h.trusts(r.RemoteAddr) {
		h.refuseUntrusted(w, r, denied)
		return
	}
	original, err := h.original(r)
	if err != nil {
		h.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	v := &responseWriter{ResponseWriter: w, denied: denied}
	h.limited.ServeHTTP(v, original.WithContext(context.WithValue(r.Context(), writerKey{}, v)))
	if !v.written { // the client went away while the request was held back
		v.WriteHeader(http.StatusServiceUnavailable)
	}
}

// deniedStatus is the status that the proxy wants a refusal to have; 0 for its own. All
// else in the query is not looked at: Caddy leaves that of its client where it was. So a
// client may choose which refusal it gets, but not whether.
func deniedStatus(r *http.Request) int {
	for _, v := range r.URL.Query()["denied"] {
		switch v {
		case "401":
			return http.StatusUnauthorized
		case "403":
			return http.StatusForbidden
		}
	}
	return 0
}

// trusts reports whether a peer may say for whom it asks.
func (h *Handler) trusts(peer string) bool {
	var addr netip.Addr // of a Unix socket, none
	if ap, err := netip.ParseAddrPort(peer); err == nil {
		addr = ap.Addr().Unmap().WithZone("")
	}
	switch {
	case len(h.client.Trusted) == 0 && !h.client.TrustUnix:
		return addr.IsLoopback()
	case !addr.IsValid():
		return h.client.TrustUnix
	}
	for _, p := range h.client.Trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// refuseUntrusted refuses a peer that is not trusted. The status is never the denied
// status: the proxy would take it for a denial of the client's request.
func (h *Handler) refuseUntrusted(w http.ResponseWriter, r *http.Request, denied int) {
	if h.warned.CompareAndSwap(false, true) {
		h.log.LogAttrs(r.Context(), slog.LevelWarn, "request of an untrusted proxy; further ones are logged at level debug",
			slog.String("peer", r.RemoteAddr), slog.String("setting", "http.trusted_proxies"))
	}
	status := http.StatusForbidden
	if denied != 0 {
		status = http.StatusBadRequest
	}
	h.refuse(w, r, status, problem.Invalid("peer", r.RemoteAddr, "an address of http.trusted_proxies: add the proxy or its network there"))
}

// refuse answers a request that no policy decided.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	var f *problem.FieldError
	if !errors.As(err, &f) {
		f = &problem.FieldError{Field: "request", Expected: err.Error()}
	}
	h.log.LogAttrs(r.Context(), slog.LevelDebug, "proxy request refused", slog.Int("status", status),
		slog.String("peer", r.RemoteAddr), slog.String("field", f.Field), slog.String("value", f.Value))
	f.Write(w, status)
}
