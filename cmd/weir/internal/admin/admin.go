package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// A Config is the configuration of a Handler.
type Config struct {
	// Token is the token that requests have to send, except for /healthz and /readyz; none
	// if empty. It has at least access.MinToken bytes.
	Token string

	// Certificates means that clients need a certificate, which the listener checks.
	Certificates bool

	// Metrics serves /metrics, Explain /v1/explain, and Health /healthz and /readyz; a path
	// does not exist if nil.
	Metrics, Explain, Health http.Handler

	// Policies returns the response of /v1/policies, for JSON; the path does not exist if
	// nil.
	Policies func() any

	// Functions serves /v1/functions; the path does not exist if nil.
	Functions http.Handler

	// Pprof enables /debug/pprof/.
	Pprof bool

	// Log receives failed authentication attempts; nothing is logged if nil.
	Log *slog.Logger
}

// A Handler is an http.Handler, safe for concurrent use.
type Handler struct {
	handler http.Handler
	access  *access.Access
	index   string
}

// New returns a Handler. An error wraps weir.ErrInvalid: the token is too short.
func New(c Config) (*Handler, error) {
	guard, err := access.New(access.Config{
		Interface: "admin", Token: c.Token, Certificates: c.Certificates, Public: []string{"/healthz", "/readyz"}, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	d := &Handler{access: guard}
	mux := http.NewServeMux()
	var index strings.Builder
	route := func(path, what string, h http.Handler) {
		mux.Handle(path, h)
		fmt.Fprintf(&index, "%-24s %s\n", path, what)
	}
	if c.Metrics != nil {
		route("/metrics", "metrics for Prometheus", readOnly(c.Metrics))
	}
	if c.Policies != nil {
		route("/v1/policies", "the policies in force", readOnly(policies(c.Policies)))
	}
	if c.Functions != nil {
		route("/v1/functions", "the functions that Go programs limit, as published in the store", readOnly(c.Functions))
	}
	if c.Explain != nil {
		route("/v1/explain", "the decision that a request would get, and why", c.Explain)
	}
	if c.Health != nil {
		route("/healthz", "whether the process runs; no token needed", readOnly(c.Health))
		route("/readyz", "readiness checks; no token needed, but for details", readOnly(c.Health))
	}
	if c.Pprof {
		routeProfiles(route)
		mux.Handle("/debug/pprof/{$}", readOnly(http.HandlerFunc(d.list)))
	}
	d.index = index.String()
	mux.Handle("/{$}", readOnly(http.HandlerFunc(d.list)))
	mux.Handle("/", http.HandlerFunc(notFound))
	d.handler = headers(sameOriginOnly(guard.Wrap(mux)))
	return d, nil
}

// ServeHTTP implements [http.Handler].
func (d *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// SetToken replaces the token, as access.Access.SetToken does.
func (d *Handler) SetToken(token string) error { return d.access.SetToken(token) }

func (d *Handler) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, d.index)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "GET / lists the paths"})
}

// policies serves the policies in force.
func policies(read func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b, err := json.MarshalIndent(read(), "", "  ")
		if err != nil {
			problem.Write(w, problem.Problem{Status: http.StatusInternalServerError, Detail: "policies not encoded as JSON"})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(append(b, '\n'))
	})
}

// readOnly accepts only GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want GET"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// headers sets header fields against caching, content sniffing, framing and scripts.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}
