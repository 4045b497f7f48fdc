package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/httplimit"
)

// A Config is the configuration of a Handler.
type Config struct {
	// Token is the token that requests have to send, except for public routes, or a line
	// for each user, as in access.Config; none if empty.
	Token string

	// Client configures trusted proxies, as in access.Config.
	Client httplimit.ClientAddress

	// Certificates means that clients need a certificate, which the listener checks.
	Certificates bool

	// Routes are the routes, in the order of the index.
	Routes []Route

	// Console serves GET / for browsers, without credentials; nil if there is none. Other
	// clients get the list of routes.
	Console http.Handler

	// Pprof enables /debug/pprof/.
	Pprof bool

	// Failed, if not nil, is called for each wrong token, as in access.Config.
	Failed func(ctx context.Context, address, via string)

	// Signed, if not nil, is called for each sign-in and sign-out, as in access.Config.
	Signed func(ctx context.Context, name, via, action string)

	// Log receives failed authentication attempts; nothing is logged if nil.
	Log *slog.Logger
}

// A Route is one or more paths.
type Route struct {
	// Pattern is a pattern of http.ServeMux with a method, such as "GET /v1/nodes/{id}".
	// Without a method, the handler checks it.
	Pattern string

	// Summary describes the route in the index; routes without one are not listed.
	Summary string

	// Role is the role that requests need. Handlers get the actor from access.ActorOf.
	Role access.Role

	Handler http.Handler
}

// A Handler is an http.Handler, safe for concurrent use.
type Handler struct {
	handler http.Handler
	access  *access.Access
	mux     *http.ServeMux
	roles   map[string]access.Role // by pattern
	index   strings.Builder
}

// New returns a Handler. An error wraps weir.ErrInvalid: the token is too short, or a
// route has no role or the pattern of another.
func New(c Config) (*Handler, error) {
	d := &Handler{mux: http.NewServeMux(), roles: map[string]access.Role{}}
	routes := c.Routes
	if c.Pprof {
		routes = append(routes[:len(routes):len(routes)], profiles()...)
		routes = append(routes, Route{"GET /debug/pprof/{$}", "", access.Read, http.HandlerFunc(d.list)})
	}
	var err error
	if d.access, err = access.New(access.Config{
		Interface: "admin", Token: c.Token, Certificates: c.Certificates, Public: d.public, Client: c.Client, Failed: c.Failed, Signed: c.Signed, Log: c.Log,
	}); err != nil {
		return nil, err
	}
	session := d.access.Session()
	routes = append(routes[:len(routes):len(routes)],
		Route{"GET /v1/session", "name and role of the sender; POST a token to sign in, DELETE to sign out", access.Public, session},
		Route{"POST /v1/session", "", access.Public, session}, Route{"DELETE /v1/session", "", access.Public, session},
		Route{"GET /{$}", "", access.Read, http.HandlerFunc(d.list)})
	for _, r := range routes {
		if !r.Role.Valid() || d.roles[r.Pattern] != "" {
			return nil, fmt.Errorf("admin: route %q: %w: role: got %q, want public, read or operate, and each pattern once", r.Pattern, weir.ErrInvalid, r.Role)
		}
		d.roles[r.Pattern] = r.Role
		d.mux.Handle(r.Pattern, r.Handler)
		if r.Summary != "" {
			method, path, ok := strings.Cut(r.Pattern, " ")
			if !ok {
				method, path = "", r.Pattern
			}
			fmt.Fprintf(&d.index, "%-6s %-26s %s\n", method, path, r.Summary)
		}
	}
	handler := d.access.Wrap(http.HandlerFunc(d.route))
	if c.Console != nil {
		handler = console(c.Console, handler)
	}
	d.handler = headers(sameOriginOnly(handler))
	return d, nil
}

// ServeHTTP implements [http.Handler].
func (d *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// SetToken replaces the token, as access.Access.SetToken does.
func (d *Handler) SetToken(token string) error { return d.access.SetToken(token) }

// public reports whether the route of r needs no credentials.
func (d *Handler) public(r *http.Request) bool {
	_, pattern := d.mux.Handler(r)
	return d.roles[pattern] == access.Public
}

// route calls the handler of r if its actor has the role.
func (d *Handler) route(w http.ResponseWriter, r *http.Request) {
	own, pattern := d.mux.Handler(r)
	role := d.roles[pattern]
	if pattern == "" { // a response of the mux: the method or the path is wrong
		res := &response{header: http.Header{}}
		own.ServeHTTP(res, r)
		if allow := res.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want " + allow})
			return
		}
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "GET / lists the paths"})
		return
	}
	if actor := access.ActorOf(r.Context()); !actor.Role.Includes(role) {
		problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not do this", actor.Name),
			Field: "role", Value: string(actor.Role), Expected: string(role)})
		return
	}
	d.mux.ServeHTTP(w, r)
}

// list sends the index.
func (d *Handler) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, d.index.String())
}

// console calls page for the start page in a browser, and next for everything else.
func console(page, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		if isRead && r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Set("Vary", "Accept")
			page.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A response keeps the header of a response and drops its body.
type response struct{ header http.Header }

func (w *response) Header() http.Header         { return w.header }
func (w *response) Write(b []byte) (int, error) { return len(b), nil }
func (w *response) WriteHeader(int)             {}

// pagePolicy lets pages load only what this origin serves.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers sets header fields against caching, content sniffing, framing and scripts of
// other origins.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}
