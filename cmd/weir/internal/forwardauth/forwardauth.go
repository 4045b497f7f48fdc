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

// Config is the configuration of a Handler. Limit is required.
type Config struct {
	// Limit applies the policies to a handler, as httplimit.Middleware.Wrap does.
	// RemoteAddr of its requests is the client's address; it must not read the address
	// from a header field.
	Limit func(http.Handler) http.Handler

	// Client selects the trusted peers, and the header field with the client's address.
	// If it trusts no peer, peers with a loopback address (127.0.0.0/8, ::1) are trusted.
	Client httplimit.ClientAddress

	// Log receives refused requests; nothing is logged if nil.
	Log *slog.Logger
}

// A Handler is an http.Handler, safe for concurrent use.
type Handler struct {
	client  httplimit.ClientAddress
	limited http.Handler
	log     *slog.Logger
	warned  atomic.Bool // about an untrusted peer
}

// New returns a Handler.
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
	if !v.written { // the client disconnected while the request waited
		v.WriteHeader(http.StatusServiceUnavailable)
	}
}

// deniedStatus returns the status that the proxy requests for denials; 0 for that of the
// policy. Other parameters are ignored: Caddy forwards its client's query, so a client
// may choose the status of a denial, but cannot avoid the denial.
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

// trusts reports whether a peer may name its client.
func (h *Handler) trusts(peer string) bool {
	var addr netip.Addr // invalid for a Unix socket
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
