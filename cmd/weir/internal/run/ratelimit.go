package run

import (
	"context"
	"io"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
)

// ratelimitVariables has the variables of envoyproxy/ratelimit that set the addresses of
// interfaces.
var ratelimitVariables = map[string]string{
	"http": "PORT", "grpc": "GRPC_PORT", "debug": "DEBUG_PORT", "metrics": "PROMETHEUS_ADDR",
}

// startRateLimit starts the interfaces for operators of `weir ratelimit`. They stop last.
func startRateLimit(p *Program) error {
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
	if err := startOperators(p, "debug", c.Debug, debug); err != nil || c.Metrics == "" {
		return err
	}
	served := http.NewServeMux()
	served.Handle("GET "+c.MetricsPath, stats.Prometheus())
	return startOperators(p, "metrics", c.Metrics, served)
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
