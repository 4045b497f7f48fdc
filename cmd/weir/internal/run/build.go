package run

import (
	"fmt"
	"io"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/encodings"
	"github.com/floodweir/weir/cmd/weir/internal/forwardauth"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/cmd/weir/internal/programs"
	"github.com/floodweir/weir/cmd/weir/internal/protection"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
)

// build builds a generation from c and the other files that c names.
func (r *reloader) build(c *config.Config, v *version) (*generation, error) {
	limits, err := r.rateLimits(c)
	if err != nil {
		return nil, err
	}
	return r.assemble(c, limits, v)
}

// assemble builds a generation without reading files. If v is not nil, its policies
// replace those of c.
func (r *reloader) assemble(c *config.Config, limits *ratelimit.Config, v *version) (*generation, error) {
	g := &generation{config: c, policies: c.Policies, source: fileName(c), limits: limits, middlewares: map[string]*httplimit.Middleware{}}
	if c.File != "" {
		g.source = c.File
	}
	if v != nil {
		g.policies, g.source = v.policies, fmt.Sprintf("version %d in %s", v.number, v.scope)
	}
	if old := r.current.Load(); old != nil {
		g.policies = g.policies.WithPrevious(old.policies)
	}
	g.policies = r.adjusted(g.policies)
	if err := r.stores.regional.check(g); err != nil {
		return nil, err
	}
	var err error
	if g.api, err = r.newAPI(g); err != nil {
		return nil, err
	}
	if routes := routes(c, r.upstream); len(routes) > 0 {
		g.gateway, err = r.newGateway(g, routes)
	}
	return g, err
}

// newMiddleware returns the middleware of an interface with the policies of g, and
// records it in g.
func (r *reloader) newMiddleware(g *generation, name string, client httplimit.ClientAddress, noResponse bool) (*httplimit.Middleware, error) {
	c := g.config.Gateway
	m, err := httplimit.New(r.stores.main, g.policies, httplimit.Config{
		Client: client, Fields: c.Fields, RetryJitter: c.RetryJitter, Body: c.KeyBody, Options: enforce.Options{Local: r.stores.local}, NoResponse: noResponse,
		Observe: r.observers.http(name), Decoders: encodings.Decoders(),
	})
	g.middlewares[name] = m
	return m, err
}

func (r *reloader) newAPI(g *generation) (*httpapi.API, error) {
	// At /v1/auth the proxy names the client in a header, so ClientAddress stays zero.
	limit, err := r.newMiddleware(g, "auth", httplimit.ClientAddress{}, true)
	if err != nil {
		return nil, err
	}
	auth, err := forwardauth.New(forwardauth.Config{Limit: limit.Wrap, Client: g.config.HTTP.Client, Log: r.log.With("interface", "auth")})
	if err != nil {
		return nil, err
	}
	c := httpapi.Config{
		Store: r.observers.metrics.Interface("http", r.stores.main), Observe: r.observers.api(), Policies: g.policies, Fields: g.config.Gateway.Fields,
		Ready: r.ready.checks, Log: r.log.With("interface", "http"), Auth: auth, Extra: map[string]http.Handler{},
	}
	if old := r.current.Load(); old != nil {
		c.Previous = old.api
	}
	c.Extra["GET /v1/published"], c.Extra["GET /v1/published/adjustments"] = r.texts, r.adjusting
	c.Extra["POST /v1/programs"] = programs.Reports(r.stores.conn, r.log.With("interface", "http"))
	if r.rls != nil {
		c.Extra["/json"] = r.rls.JSON()
		c.Extra["GET /healthcheck"] = http.HandlerFunc(r.ready.healthcheck)
	}
	return httpapi.New(c)
}

// healthcheck answers as envoyproxy/ratelimit does.
func (r *readiness) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if r.draining.Load() || r.needsLimits && r.current().limits == nil || r.available != nil && !r.available() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "OK")
}

func (r *reloader) newGateway(g *generation, routes []gateway.Route) (*gateway.Gateway, error) {
	c := g.config.Gateway
	limit, err := r.newMiddleware(g, "gateway", c.Client, false)
	if err != nil {
		return nil, err
	}
	p := protection.Config{
		Routes: c.Routes, Rules: g.config.System, Client: c.Client, RetryJitter: c.RetryJitter,
		Observe: r.observers.metrics.Protection, Missing: r.missing,
	}
	if old := r.current.Load(); old != nil {
		p.Previous = old.protections
	}
	if g.protections, err = protection.New(p); err != nil {
		return nil, err
	}
	for i := range c.Routes {
		routes[i].Protect = g.protections.Route(i)
	}
	return gateway.New(gateway.Config{
		Routes: routes, Limit: limit.Wrap, Client: c.Client,
		RequestID: c.RequestID, AccessLog: c.AccessLog, Log: r.log.With("interface", "gateway"),
		Transport: r.observers.telemetry.Transport,
	})
}

// missing reports that a metric of a system rule is unavailable, or available if err is nil.
func (r *reloader) missing(metric string, err error) {
	if err != nil {
		r.log.Warn("system metric unavailable: its rule is inactive", "metric", metric, "error", err)
	}
}
