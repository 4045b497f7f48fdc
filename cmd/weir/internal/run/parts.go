package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/demo"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/httplimit"
)

// startUpstream opens the upstream of the demonstration, on a port that is free.
func (p *Program) startUpstream(context.Context) error {
	if !p.config.Demo() || p.config.Gateway.Listen == config.Off {
		return nil
	}
	p.upstream = &door{name: "upstream", addr: "127.0.0.1:0", handler: demo.Upstream()}
	return p.open(p.upstream)
}

// Check reports why the doors of c could not be made. It opens nothing.
func Check(c *config.Config) error {
	log := slog.New(slog.DiscardHandler)
	store, stop, err := openMemory("", log)
	if err != nil {
		return err
	}
	defer stop()
	p := &Program{config: c, log: log, store: store, ready: &readiness{store: store}}
	if _, err := p.newAPI(); err != nil {
		return err
	}
	if len(c.Gateway.Routes) == 0 {
		return nil
	}
	_, err = p.newGateway(p.routes())
	return err
}

func (p *Program) newAPI() (*httpapi.API, error) {
	return httpapi.New(httpapi.Config{
		Store: p.store, Policies: p.config.Policies, Fields: p.config.Gateway.Fields,
		Ready: p.ready.checks, Log: p.log.With("door", "http"),
	})
}

// startAPI opens the door of questions.
func (p *Program) startAPI(context.Context) error {
	if p.config.HTTP.Listen == config.Off {
		return nil
	}
	api, err := p.newAPI()
	if err != nil {
		return err
	}
	p.api = &door{name: "http", flag: "listen-http", addr: p.config.HTTP.Listen, handler: api, trusts: true}
	return p.open(p.api)
}

// startGateway opens the reverse proxy behind the limits. Its drain comes first
// when the program stops.
func (p *Program) startGateway(context.Context) error {
	c := p.config.Gateway
	routes := p.routes()
	switch {
	case c.Listen == config.Off:
		return nil
	case len(routes) == 0:
		p.log.Warn("the file has no gateway.routes: the gateway stays shut", "file", p.config.File)
		return nil
	}
	g, err := p.newGateway(routes)
	if err != nil {
		return err
	}
	d := &door{name: "gateway", flag: "listen-gateway", addr: c.Listen, handler: g}
	if c.CertFile != "" {
		pair := &keyPair{certFile: c.CertFile, keyFile: c.KeyFile, log: p.log}
		if err := pair.load(time.Now()); err != nil {
			return fmt.Errorf("gateway: --tls-cert %s, --tls-key %s: %w", c.CertFile, c.KeyFile, err)
		}
		d.cert = pair.get
	}
	p.stops = append(p.stops, func(context.Context) { g.Close() })
	p.gateway = d
	return p.open(d)
}

func (p *Program) newGateway(routes []gateway.Route) (*gateway.Gateway, error) {
	c := p.config.Gateway
	limit, err := httplimit.New(p.store, p.config.Policies, httplimit.Config{
		Client: c.Client, Fields: c.Fields, RetryJitter: c.RetryJitter, Observe: p.observe(),
	})
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Config{
		Routes: routes, Limit: limit.Wrap, Client: c.Client,
		RequestID: c.RequestID, AccessLog: c.AccessLog, Log: p.log.With("door", "gateway"),
	})
}

func (p *Program) routes() []gateway.Route {
	if p.upstream != nil {
		return []gateway.Route{{Upstream: p.upstream.url()}}
	}
	var routes []gateway.Route
	for _, r := range p.config.Gateway.Routes {
		routes = append(routes, gateway.Route{Host: r.Host, Path: r.Path, Upstream: r.Upstream.String(), Timeout: r.Timeout})
	}
	return routes
}
