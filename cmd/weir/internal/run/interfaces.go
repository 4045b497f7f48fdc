package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/demo"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/policy"
)

// startInterfaces builds the first generation and opens the listeners. The admin
// interface starts first, so it stops last.
func (p *Program) startInterfaces() error {
	if err := p.startUpstream(); err != nil {
		return err
	}
	p.reloader.upstream = p.upstream
	var err error
	if p.reloader.rls, err = p.newRLS(); err != nil {
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
	if err := p.startAdmin(); err != nil {
		return err
	}
	p.onStop(p.drain)
	for _, start := range []func() error{p.startGRPC, p.startRESP, p.startAPI, p.startGateway} {
		if err := start(); err != nil {
			return err
		}
	}
	p.ready.open.Store(true)
	return nil
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

// newHTTP returns the listener of an HTTP interface.
func (p *Program) newHTTP(name, addr string, handler http.Handler, readTimeout time.Duration, cert func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *listener {
	l := &listener{
		name: name, flag: "listen-" + name, addr: addr, scheme: "http",
		server: newHTTPServer(handler, readTimeout, cert, p.log.With("interface", name)),
	}
	if cert != nil {
		l.scheme = "https"
	}
	return l
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

// startAdmin starts the admin interface.
func (p *Program) startAdmin() error {
	c := p.config.Admin
	if c.Listen == config.Off {
		return nil
	}
	h, err := admin.New(admin.Config{
		Address: c.Listen, Token: c.Token, Metrics: p.observers.metrics.Handler(), Pprof: true,
		Explain:   explain.New(p.stores.main, func() *policy.Set { return p.ready.current().policies }),
		Ready:     http.HandlerFunc(p.serveAPI), // which has /readyz
		Policies:  func() any { return p.ready.current().listing() },
		Functions: functions(p.stores.conn, p.log), Log: p.log.With("interface", "admin"),
	})
	if err != nil {
		return err
	}
	p.admin = p.newHTTP("admin", c.Listen, h, requestTimeout, nil)
	if err := p.admin.start(p.log, p.failed); err != nil {
		return err
	}
	p.onStop(func(ctx context.Context) { p.admin.drain(ctx, p.log) })
	if c.Token == "" && !p.admin.loopback() {
		return fmt.Errorf("admin: %s is %s, which other machines can reach: want --admin-token-file, or the address 127.0.0.1", c.Listen, p.admin.bound)
	}
	return nil
}

// startAPI starts the HTTP interface.
func (p *Program) startAPI() error {
	if p.config.HTTP.Listen == config.Off {
		return nil
	}
	handler := p.observers.telemetry.Handler("http", http.HandlerFunc(p.serveAPI))
	p.api = p.newHTTP("http", p.config.HTTP.Listen, handler, requestTimeout, nil)
	p.api.open = true
	return p.api.start(p.log, p.failed)
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
	cert, err := certificate(c.CertFile, c.KeyFile, "gateway: --tls-cert, --tls-key", p.log)
	if err != nil {
		return err
	}
	handler := p.observers.telemetry.Handler("gateway", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.reloader.current.Load().gateway.ServeHTTP(w, r)
	}))
	p.gateway = p.newHTTP("gateway", c.Listen, handler, 0, cert)
	return p.gateway.start(p.log, p.failed)
}

// newRLS returns the service behind the gRPC interface and /json; nil without a
// configuration.
func (p *Program) newRLS() (*rls.Server, error) {
	c := p.config.GRPC
	if c.Config == "" && !p.config.Demo() {
		return nil, nil
	}
	return rls.New(rls.Config{
		Store: p.observers.metrics.Interface("grpc", p.stores.withFallback(c.OnStoreError)), Shadow: c.Shadow, Quota: c.Quota,
		ResponseHeaders: c.ResponseHeaders, DynamicMetadata: c.DynamicMetadata,
		Log: p.log.With("interface", "grpc"), Observe: p.observers.grpc,
	})
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
	var err error
	if sc.GetCertificate, err = certificate(c.CertFile, c.KeyFile, "grpc: --grpc-tls-cert, --grpc-tls-key", p.log); err != nil {
		return err
	}
	if c.ClientCAFile != "" {
		pem, err := os.ReadFile(c.ClientCAFile)
		if err != nil {
			return fmt.Errorf("grpc: --grpc-client-ca: %w", err)
		}
		sc.ClientCAs = x509.NewCertPool()
		if !sc.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("grpc: --grpc-client-ca: %s: got no certificate, want certificates in PEM", c.ClientCAFile)
		}
	}
	p.rls = rls.NewServer(sc)
	p.reloader.rls.Register(p.rls)
	p.grpc = &listener{name: "grpc", flag: "listen-grpc", addr: c.Listen, open: c.ClientCAFile == "", server: p.rls}
	return p.grpc.start(p.log, p.failed)
}

// startRESP starts the interface for redis-cell clients.
func (p *Program) startRESP() error {
	c := p.config.RESP
	if c.Listen == config.Off {
		return nil
	}
	s, err := respd.New(respd.Config{
		Store: p.observers.metrics.Interface("resp", p.stores.main), Password: c.Password, Version: p.version,
		Log: p.log.With("interface", "resp"), Observe: p.observers.resp,
	})
	if err != nil {
		return err
	}
	p.resp = &listener{name: "resp", flag: "listen-resp", addr: c.Listen, open: c.Password == "", server: s}
	return p.resp.start(p.log, p.failed)
}
