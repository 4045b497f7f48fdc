package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/demo"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/forwardauth"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// startDoors makes the first generation and opens the doors: those of clients after
// that of the admin, which therefore outlives them.
func (p *Program) startDoors(ctx context.Context) error {
	if err := p.startUpstream(ctx); err != nil {
		return err
	}
	var err error
	if p.rls, err = p.newRLS(); err != nil {
		return err
	}
	g, err := p.build(p.config, p.published.Load())
	if err != nil {
		return err
	}
	p.adopt(g)
	if err := p.startAdmin(); err != nil {
		return err
	}
	p.stops = append(p.stops, func(context.Context) {
		if g := p.current.Load().gateway; g != nil {
			g.Close()
		}
	}, p.drain)
	for _, start := range []func() error{p.startGRPC, p.startRESP, p.startAPI, p.startGateway} {
		if err := start(); err != nil {
			return err
		}
	}
	p.ready.open.Store(true)
	return nil
}

// startUpstream opens the upstream of the demonstration, on a port that is free.
func (p *Program) startUpstream(context.Context) error {
	if !p.config.Demo() || p.config.Gateway.Listen == config.Off {
		return nil
	}
	p.upstream = &door{name: "upstream", addr: "127.0.0.1:0", handler: demo.Upstream()}
	return p.open(p.upstream, &p.stops)
}

// Check reports why the doors of c could not be made. It opens nothing.
func Check(c *config.Config) error {
	p := &Program{in: Input{Config: c}, config: c, log: slog.New(slog.DiscardHandler)}
	defer p.stop(context.Background())
	memory := *c
	memory.Store = "memory"
	p.config = &memory
	for _, start := range []func(context.Context) error{p.startMeters, p.startStore} {
		if err := start(context.Background()); err != nil {
			return err
		}
	}
	_, err := p.build(c, nil)
	return err
}

// newLimit is the policies of g as a middleware of a door, which it notes in g.
func (p *Program) newLimit(g *generation, name string, client httplimit.ClientAddress, blind bool) (*httplimit.Middleware, error) {
	c := g.config.Gateway
	m, err := httplimit.New(p.metrics.Door(name, p.store), g.policies, httplimit.Config{
		Client: client, Fields: c.Fields, RetryJitter: c.RetryJitter, Options: enforce.Options{Local: p.local}, NoResponse: blind, Observe: p.observe(name),
	})
	g.doors[name] = m
	return m, err
}

func (p *Program) newAPI(g *generation) (*httpapi.API, error) {
	// Who asks at /v1/auth is told about the client by the proxy, and not by itself.
	limit, err := p.newLimit(g, "auth", httplimit.ClientAddress{}, true)
	if err != nil {
		return nil, err
	}
	auth, err := forwardauth.New(forwardauth.Config{Limit: limit.Wrap, Client: g.config.HTTP.Client, Log: p.log.With("door", "auth")})
	if err != nil {
		return nil, err
	}
	c := httpapi.Config{
		Store: p.metrics.Door("http", p.store), Policies: g.policies, Fields: g.config.Gateway.Fields,
		Ready: p.ready.checks, Log: p.log.With("door", "http"), Auth: auth, Extra: map[string]http.Handler{},
	}
	if old := p.current.Load(); old != nil {
		c.Before = old.api
	}
	if p.rls != nil {
		c.Extra["/json"] = p.rls.JSON()
		c.Extra["GET /healthcheck"] = http.HandlerFunc(p.healthcheck)
	}
	return httpapi.New(c)
}

// healthcheck answers as envoyproxy/ratelimit does.
func (p *Program) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if p.ready.draining.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "OK")
}

// startAPI opens the door of questions.
func (p *Program) startAPI() error {
	if p.config.HTTP.Listen == config.Off {
		return nil
	}
	p.api = &door{
		name: "http", flag: "listen-http", addr: p.config.HTTP.Listen, trusts: true, whole: requestTimeout,
		handler: p.telemetry.Handler("http", http.HandlerFunc(p.serveAPI)),
	}
	return p.open(p.api, &p.drains)
}

// startAdmin opens the door of those who run the program.
func (p *Program) startAdmin() error {
	c := p.config.Admin
	if c.Listen == config.Off {
		return nil
	}
	h, err := admin.New(admin.Config{
		Address: c.Listen, Token: c.Token, Metrics: p.metrics.Handler(), Pprof: true,
		Explain:  explain.New(p.store, func() *policy.Set { return p.current.Load().policies }),
		Ready:    http.HandlerFunc(p.serveAPI), // whose /readyz it is
		Policies: p.loaded, Functions: http.HandlerFunc(p.functions), Log: p.log.With("door", "admin"),
	})
	if err != nil {
		return err
	}
	p.admin = &door{name: "admin", flag: "listen-admin", addr: c.Listen, handler: h, whole: requestTimeout}
	if err := p.open(p.admin, &p.stops); err != nil {
		return err
	}
	if ip := p.admin.bound.(*net.TCPAddr).IP; c.Token == "" && !ip.IsLoopback() {
		return fmt.Errorf("admin: %s is %s, which other machines can reach: want --admin-token-file, or 127.0.0.1", c.Listen, ip)
	}
	return nil
}

// loaded is what the admin door tells of the policies in force.
func (p *Program) loaded() any {
	type loaded struct {
		Name   string   `json:"name"`
		Mode   string   `json:"mode"`
		Key    []string `json:"key"`
		Limits []string `json:"limits"`
	}
	g := p.current.Load()
	all := []loaded{}
	for _, one := range g.policies.Policies() {
		c := one.Config()
		l := loaded{Name: c.Name, Mode: string(c.Mode)}
		for _, k := range c.Key {
			l.Key = append(l.Key, k.String())
		}
		for _, limit := range c.Limits {
			l.Limits = append(l.Limits, limit.String())
		}
		all = append(all, l)
	}
	return map[string]any{"from": g.source, "policies": all}
}

// startGateway opens the reverse proxy behind the limits.
func (p *Program) startGateway() error {
	c := p.config.Gateway
	switch {
	case c.Listen == config.Off:
		return nil
	case p.current.Load().gateway == nil:
		p.log.Warn("the file has no gateway.routes: the gateway stays shut", "file", p.config.File)
		return nil
	}
	d := &door{
		name: "gateway", flag: "listen-gateway", addr: c.Listen,
		handler: p.telemetry.Handler("gateway", http.HandlerFunc(p.serveGateway)),
	}
	if c.CertFile != "" {
		pair := &keyPair{certFile: c.CertFile, keyFile: c.KeyFile, log: p.log}
		if err := pair.load(time.Now()); err != nil {
			return fmt.Errorf("gateway: --tls-cert %s, --tls-key %s: %w", c.CertFile, c.KeyFile, err)
		}
		d.cert = pair.get
	}
	p.gateway = d
	return p.open(d, &p.drains)
}

func (p *Program) newGateway(g *generation, routes []gateway.Route) (*gateway.Gateway, error) {
	c := g.config.Gateway
	limit, err := p.newLimit(g, "gateway", c.Client, false)
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Config{
		Routes: routes, Limit: limit.Wrap, Client: c.Client,
		RequestID: c.RequestID, AccessLog: c.AccessLog, Log: p.log.With("door", "gateway"),
		Transport: p.telemetry.Transport,
	})
}

func (p *Program) routes(c *config.Config) []gateway.Route {
	if p.upstream != nil {
		return []gateway.Route{{Upstream: p.upstream.url()}}
	}
	var routes []gateway.Route
	for _, r := range c.Gateway.Routes {
		routes = append(routes, gateway.Route{Host: r.Host, Path: r.Path, Upstream: r.Upstream.String(), Timeout: r.Timeout})
	}
	return routes
}
