package run

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/xds"
)

// ratelimitVariables has the variables of envoyproxy/ratelimit that set the addresses of
// interfaces.
var ratelimitVariables = map[string]string{
	"http": "PORT", "grpc": "GRPC_PORT", "debug": "DEBUG_PORT", "metrics": "PROMETHEUS_ADDR",
}

// startRateLimit starts what only `weir ratelimit` has, and waits for the limits of its
// control plane.
func startRateLimit(ctx context.Context, p *Program) error {
	c := p.config.RateLimit
	if c == nil {
		return nil
	}
	stats := p.observers.metrics.RateLimit()
	debug, err := admin.New(admin.Config{Pprof: true, Log: p.log.With("interface", "debug"), Routes: []admin.Route{
		{Pattern: "GET /stats", Summary: "counters of the limits", Role: access.Read, Handler: stats.Text()},
		{Pattern: "GET /rlconfig", Summary: "the configuration in force", Role: access.Read, Handler: http.HandlerFunc(p.ready.dumpLimits)},
		{Pattern: "GET /metrics", Summary: "metrics for Prometheus", Role: access.Read, Handler: stats.Prometheus()},
	}})
	if err != nil {
		return err
	}
	if err := startOperators(p, "debug", c.Debug, debug); err != nil {
		return err
	}
	if c.Metrics != "" {
		served := http.NewServeMux()
		served.Handle("GET "+c.MetricsPath, stats.Prometheus())
		if err := startOperators(p, "metrics", c.Metrics, served); err != nil {
			return err
		}
	}
	if c.XDS == nil || c.StartWithout {
		return nil
	}
	client, err := followControlPlane(ctx, p, p.reloader.receive)
	if err != nil {
		return err
	}
	p.log.Warn("waiting for the first limits of the control plane", "server", c.XDS.Server)
	select {
	case <-client.First():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startWithoutLimits begins to receive limits when all interfaces listen.
func startWithoutLimits(ctx context.Context, p *Program) error {
	c := p.config.RateLimit
	if c == nil || c.XDS == nil || !c.StartWithout {
		return nil
	}
	if c.NeedsLimits {
		p.rls.SetServing(false)
	}
	_, err := followControlPlane(ctx, p, func(resources []xds.Resource) error {
		err := p.reloader.receive(resources)
		if err == nil && !p.ready.draining.Load() {
			p.rls.SetServing(true)
		}
		return err
	})
	return err
}

// followControlPlane begins to receive limits.
func followControlPlane(ctx context.Context, p *Program, apply func([]xds.Resource) error) (*xds.Client, error) {
	c := *p.config.RateLimit.XDS
	c.Apply, c.Log = apply, p.log
	client, err := xds.New(c)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { client.Run(running) })
	p.onStop(func(context.Context) {
		cancel()
		background.Wait()
	})
	return client, nil
}

// receive puts the limits of a control plane into force.
func (r *reloader) receive(resources []xds.Resource) error {
	texts := make([]ratelimit.Text, len(resources))
	for i, one := range resources {
		texts[i] = ratelimit.Text{Name: one.Name, Data: one.Text}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.current.Load()
	limits, err := ratelimit.ParseAll(texts, old.config.GRPC.MergeDomains)
	var g *generation
	if err == nil {
		g, err = r.assemble(old.config, limits, r.published.Load())
	}
	if err == nil {
		r.received = limits
	}
	r.replace(fromControlPlane, "control plane", g, err)
	return err
}

// startOperators starts an interface for operators, without authentication.
func startOperators(p *Program, name, addr string, h http.Handler) error {
	l := p.newHTTP(name, addr, h, requestTimeout, nil)
	l.open = true
	if err := l.start(p.log, p.failed); err != nil {
		return err
	}
	p.onStop(func(ctx context.Context) { l.drain(ctx, p.log) })
	return nil
}

func (r *readiness) dumpLimits(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, r.current().limits.String()) // fails only if the client disconnected
}

// startRateLimitHTTP starts the HTTP interface of `weir ratelimit`.
func startRateLimitHTTP(p *Program) error {
	served := http.NewServeMux()
	served.Handle("/json", p.reloader.rls.JSON())
	served.HandleFunc("GET /healthcheck", p.ready.healthcheck)
	p.api = p.newHTTP("http", p.config.HTTP.Listen, p.observers.telemetry.Handler("http", served), requestTimeout, nil)
	p.api.open = true
	return p.api.start(p.log, p.failed)
}
