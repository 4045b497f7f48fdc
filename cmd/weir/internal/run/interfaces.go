package run

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/certificate"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/console"
	"github.com/floodweir/weir/cmd/weir/internal/demo"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/programs"
	"github.com/floodweir/weir/cmd/weir/internal/protection"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/policy"
)

// startInterfaces builds the first generation and opens the listeners. The admin
// interface starts first, so it stops last.
func (p *Program) startInterfaces(ctx context.Context) error {
	if err := p.startUpstream(); err != nil {
		return err
	}
	p.reloader.upstream = p.upstream
	var err error
	if p.reloader.rls, err = p.newRLS(); err != nil {
		return err
	}
	if p.reloader.quota, err = p.newQuota(); err != nil {
		return err
	}
	g, err := p.reloader.build(p.config, p.reloader.published.Load())
	if err != nil {
		return err
	}
	p.reloader.activate(g)
	p.onStop(func(context.Context) {
		if g := p.reloader.current.Load().gateway; g != nil {
			g.Close()
		}
	})
	if err := p.newLive(); err != nil {
		return err
	}
	// All ports in use are reported together: a second process on this machine has several.
	var inUse []error
	startAll := func(starts ...func() error) error {
		for _, start := range starts {
			if err := start(); errors.As(err, new(portInUse)) {
				inUse = append(inUse, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	}
	if err := startAll(p.startAdmin); err != nil {
		return err
	}
	if inUse == nil {
		if err := startRateLimit(ctx, p); err != nil {
			return err
		}
		p.runLive() // stops before the admin interface, whose streams then end
	}
	p.onStop(p.drain)
	if err := startAll(p.startGRPC, p.startRESP, p.startAPI, p.startGateway); err != nil {
		return err
	}
	if inUse != nil {
		return errors.Join(inUse...)
	}
	p.ready.open.Store(true)
	return startWithoutLimits(ctx, p)
}

// drain drains the interfaces of clients at the same time: a WebSocket that stays open at
// one of them takes no time from the requests at another.
func (p *Program) drain(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range []*listener{p.gateway, p.api, p.grpc, p.resp} {
		if l != nil {
			all.Go(func() { l.drain(ctx, p.log) })
		}
	}
	all.Wait()
}

// newHTTP returns the listener of an HTTP interface; without TLS if t is nil.
func (p *Program) newHTTP(name, addr string, handler http.Handler, readTimeout time.Duration, t *tls.Config) *listener {
	l := p.newListener(name, addr, newHTTPServer(handler, readTimeout, t, p.log.With("interface", name)))
	l.scheme = "http"
	if t != nil {
		l.scheme = "https"
	}
	return l
}

// newListener returns the listener of an interface.
func (p *Program) newListener(name, addr string, s server) *listener {
	flag := "--listen-" + name
	level := slog.LevelInfo
	if p.config.RateLimit != nil {
		level = slog.LevelWarn // as envoyproxy/ratelimit, which prints nothing else when it is ready
		if variable := ratelimitVariables[name]; variable != "" {
			flag = variable
		}
	}
	return &listener{name: name, flag: flag, addr: addr, server: s, level: level, maxConnections: p.maxConnections(), metrics: p.observers.metrics}
}

// maxConnections returns the maximum of open connections of each listener.
func (p *Program) maxConnections() int {
	if n := p.config.MaxConnections; n > 0 {
		return n
	}
	return defaultConnections(openFiles())
}

// startUpstream starts the upstream of the demo on a free port.
func (p *Program) startUpstream() error {
	if !p.config.Demo() || p.config.Gateway.Listen == config.Off {
		return nil
	}
	p.upstream = p.newHTTP("upstream", "127.0.0.1:0", demo.Upstream(), 0, nil)
	if err := p.upstream.start(p.log, p.failed); err != nil {
		return err
	}
	p.onStop(func(ctx context.Context) { p.upstream.drain(ctx, p.log) })
	return nil
}

// adminRoutes returns the routes of the admin interface.
func (p *Program) adminRoutes() []admin.Route {
	api := http.HandlerFunc(p.serveAPI) // has /healthz and /readyz
	return slices.Concat([]admin.Route{
		{Pattern: "GET " + console.Path, Summary: "the console, for browsers; no token needed, but for its data", Role: access.Public, Handler: console.New()},
		{Pattern: "GET /metrics", Summary: "metrics for Prometheus", Role: access.Read, Handler: p.observers.metrics.Handler()},
		{Pattern: "GET /v1/policies", Summary: "the policies in force", Role: access.Read, Handler: http.HandlerFunc(p.listPolicies)},
		{Pattern: "GET /v1/functions", Summary: "the functions that Go programs limit, as published in the store", Role: access.Read,
			Handler: programs.Functions(p.stores.conn, p.log)},
		{Pattern: "GET /v1/upstreams", Summary: "the protections of the gateway's upstreams on this node", Role: access.Read,
			Handler: protection.States(func() *protection.Set { return p.ready.current().protections })},
		{Pattern: "/v1/explain", Summary: "the decision that a request would get, and why", Role: access.Read, Handler: p.explainer()},
		{Pattern: "GET /healthz", Summary: "whether the process runs; no token needed", Role: access.Public, Handler: api},
		{Pattern: "GET /readyz", Summary: "readiness checks; no token needed, but for details", Role: access.Public, Handler: api},
	}, p.liveRoutes(), p.operations(), p.editRoutes())
}

func (p *Program) explainer() http.Handler {
	c := explain.Config{Store: p.stores.main, Shares: p.stores.explainShares, Region: p.stores.explainRegion,
		Policies: func() *policy.Set { return p.ready.current().policies }, Draft: p.reloader.draft}
	if p.reloader.quota != nil {
		c.Quota = p.reloader.quota
	}
	return explain.New(c)
}

func (p *Program) listPolicies(w http.ResponseWriter, _ *http.Request) {
	problem.WriteJSON(w, p.ready.current().listing())
}

// startAdmin starts the admin interface.
func (p *Program) startAdmin() error {
	c := p.config.Admin
	if c.Listen == config.Off {
		return nil
	}
	t, err := certificate.Config("admin", "admin-", c.TLS, p.log)
	if err != nil {
		return err
	}
	h, err := admin.New(admin.Config{
		Token: c.Token, Certificates: c.ClientCAFile != "", Client: c.Client, Failed: p.audit.SignInFailed, Signed: p.audit.Signed, Routes: p.adminRoutes(), Pprof: true, Log: p.log.With("interface", "admin"),
		Console: http.RedirectHandler(console.Path, http.StatusFound),
	})
	if err != nil {
		return err
	}
	p.admin = p.newHTTP("admin", c.Listen, h, requestTimeout, t)
	p.admin.credentials(c.Token, c.TLS, "--admin-token-file FILE")
	p.reloader.secrets = append(p.reloader.secrets, &config.Secret{Flag: "admin-token-file", File: c.TokenFile, Value: c.Token, Lines: true, Use: h.SetToken})
	if err := p.admin.start(p.log, p.failed); err != nil {
		return err
	}
	p.onStop(func(ctx context.Context) { p.admin.drain(ctx, p.log) })
	return nil
}

// authPath is the path of the HTTP interface for proxies. Its handler accepts only trusted
// proxies.
const authPath = "/v1/auth"

// healthPaths need no credentials, but for details.
var healthPaths = []string{"/healthz", "/readyz", "/healthcheck"}

func isHealth(r *http.Request) bool { return slices.Contains(healthPaths, r.URL.Path) }

// startAPI starts the HTTP interface.
func (p *Program) startAPI() error {
	c := p.config.HTTP
	if c.Listen == config.Off {
		return nil
	}
	if p.config.RateLimit != nil {
		return startRateLimitHTTP(p)
	}
	t, err := certificate.Config("http", "http-", c.TLS, p.log)
	if err != nil {
		return err
	}
	a, err := access.New(access.Config{
		Interface: "http", Token: c.Token, Certificates: c.ClientCAFile != "", Hosts: c.Hosts, Public: isHealth, Proxy: authPath, Log: p.log,
	})
	if err != nil {
		return err
	}
	handler := http.Handler(http.HandlerFunc(p.serveAPI))
	if c.AuthOnly {
		handler = authOnly(handler)
	}
	p.api = p.newHTTP("http", c.Listen, p.observers.telemetry.Handler("http", a.Wrap(handler)), requestTimeout, t)
	p.api.credentials(c.Token, c.TLS, "--http-token-file FILE")
	p.reloader.secrets = append(p.reloader.secrets, &config.Secret{Flag: "http-token-file", File: c.TokenFile, Value: c.Token, Use: a.SetToken})
	p.api.open = p.api.open && !c.AuthOnly
	p.api.remedy += ", or --http-serve auth for " + authPath + " alone"
	return p.api.start(p.log, p.failed)
}

// authOnly refuses all paths except authPath and those of health.
func authOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != authPath && !isHealth(r) {
			problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "this listener serves only " + authPath + ", /healthz and /readyz (--http-serve auth)"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveAPI passes a request to the API of the generation in force.
func (p *Program) serveAPI(w http.ResponseWriter, r *http.Request) {
	p.reloader.current.Load().api.ServeHTTP(w, r)
}

// startGateway starts the gateway.
func (p *Program) startGateway() error {
	c := p.config.Gateway
	switch {
	case c.Listen == config.Off:
		return nil
	case p.reloader.current.Load().gateway == nil:
		p.log.Warn("gateway disabled: the file has no gateway.routes", "file", p.config.File)
		return nil
	}
	t, err := certificate.Config("gateway", "", c.TLS, p.log)
	if err != nil {
		return err
	}
	handler := p.observers.telemetry.Handler("gateway", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.reloader.current.Load().gateway.ServeHTTP(w, r)
	}))
	p.gateway = p.newHTTP("gateway", c.Listen, handler, 0, t)
	return p.gateway.start(p.log, p.failed)
}

// newRLS returns the service behind the gRPC interface and /json; nil without a
// configuration.
func (p *Program) newRLS() (*rls.Server, error) {
	c := p.config.GRPC
	if !p.config.RateLimits() {
		return nil, nil
	}
	rc := rls.Config{
		Store: p.observers.metrics.Interface("grpc", p.stores.withFallback(c.OnStoreError)), Shadow: c.Shadow, Quota: c.Quota,
		ResponseHeaders: c.ResponseHeaders, DynamicMetadata: c.DynamicMetadata,
		Log: p.log.With("interface", "grpc"), Observe: p.observers.grpc, Elsewhere: c.QuotaService.Domains,
	}
	if r := p.config.RateLimit; r != nil {
		rc.Headers, rc.NearRatio, rc.KeyPrefix = r.Headers, r.NearRatio, r.KeyPrefix
	}
	return rls.New(rc)
}

// startGRPC starts the interface for Envoy.
func (p *Program) startGRPC() error {
	c := p.config.GRPC
	switch {
	case c.Listen == config.Off:
		return nil
	case p.reloader.rls == nil:
		p.log.Debug("gRPC interface disabled: no --grpc-config")
		return nil
	}
	sc := rls.ServerConfig{StatsHandler: p.observers.telemetry.GRPC(), Log: p.log.With("interface", "grpc")}
	if r := p.config.RateLimit; r != nil {
		sc.MaxConnectionAge, sc.MaxConnectionAgeGrace = r.MaxConnectionAge, r.MaxConnectionAgeGrace
	}
	var err error
	if sc.TLS, err = certificate.Config("grpc", "grpc-", c.TLS, p.log); err != nil {
		return err
	}
	if p.reloader.quota != nil {
		sc.Ping, sc.Services = rlqs.Ping, []string{rlqs.ServiceName}
	}
	p.rls = rls.NewServer(sc)
	p.reloader.rls.Register(p.rls)
	if p.reloader.quota != nil {
		p.reloader.quota.Register(p.rls)
	}
	p.grpc = p.newListener("grpc", c.Listen, p.rls)
	p.grpc.credentials("", c.TLS, "")
	if p.grpc.remedy += ", or --grpc-anonymous true to serve every client"; c.Anonymous {
		p.grpc.remedy = ""
	}
	return p.grpc.start(p.log, p.failed)
}

// startRESP starts the interface for redis-cell clients.
func (p *Program) startRESP() error {
	c := p.config.RESP
	if c.Listen == config.Off {
		return nil
	}
	t, err := certificate.Config("resp", "resp-", c.TLS, p.log)
	if err != nil {
		return err
	}
	s, err := respd.New(respd.Config{
		TLS: t, Store: p.stores.main, Password: c.Password, Version: p.version,
		Log: p.log.With("interface", "resp"), Observe: p.observers.resp(),
		MaxConns: p.maxConnections(), Refused: func() { p.observers.metrics.ConnectionRefused("resp") },
	})
	if err != nil {
		return err
	}
	p.resp = p.newListener("resp", c.Listen, s)
	p.resp.maxConnections = 0 // s refuses connections with an error
	p.resp.credentials(c.Password, c.TLS, "--resp-password-file FILE")
	p.reloader.secrets = append(p.reloader.secrets, &config.Secret{Flag: "resp-password-file", File: c.PasswordFile, Value: c.Password, Use: s.SetPassword})
	return p.resp.start(p.log, p.failed)
}
