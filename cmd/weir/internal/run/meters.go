package run

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
	"github.com/floodweir/weir/enforce"
)

// startMeters makes what counts, traces and logs what the doors decide.
func (p *Program) startMeters(ctx context.Context) error {
	p.metrics = metrics.New(metrics.Config{Version: p.in.Version})
	var err error
	if p.decisions, err = decisionlog.New(decisionlog.Config{
		Log: p.log, Every: p.config.Decisions.Admitted, Denied: p.config.Decisions.Denied,
		Keys: decisionlog.Keys(p.config.Decisions.Keys),
	}); err != nil {
		return err
	}
	p.telemetry, err = telemetry.Start(ctx, telemetry.Config{
		ServiceName: "weir", Version: p.in.Version, Gatherer: p.metrics.Gatherer(), Getenv: p.in.Getenv, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.stops = append(p.stops, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout) // however long the drain took
		defer cancel()
		p.telemetry.Shutdown(ctx)
	})
	return nil
}

// flushTimeout is how long the last traces may take to be sent.
const flushTimeout = 3 * time.Second

// observe tells everybody what became of a request at a door.
func (p *Program) observe(door string) func(*http.Request, enforce.Event) {
	return func(r *http.Request, e enforce.Event) {
		ctx := r.Context()
		p.metrics.Observe(door, e)
		p.telemetry.Decision(ctx, door, e)
		p.decisions.Observe(ctx, door, e, slog.String("method", r.Method), slog.String("path", r.URL.Path))
	}
}

// nameHits begins the counters of what is configured, so that names from requests
// cannot take their places.
func (p *Program) nameHits(limits *ratelimit.Config) {
	p.metrics.ForgetDescriptors()
	for _, d := range limits.Domains() {
		for _, path := range d.Paths() {
			p.metrics.Descriptor(d.Name, path, metrics.TotalHits, 0)
		}
	}
}

// observeHits counts what the door of gRPC decided, as envoyproxy/ratelimit counts.
func (p *Program) observeHits(e rls.Event) {
	if e.Domain == "" || e.Err != nil {
		return
	}
	p.metrics.Descriptor(e.Domain, e.Label, metrics.TotalHits, e.Hits)
	switch {
	case !e.OK && e.Shadow:
		p.metrics.Descriptor(e.Domain, e.Label, metrics.ShadowMode, e.Hits)
		fallthrough
	case !e.OK:
		p.metrics.Descriptor(e.Domain, e.Label, metrics.OverLimit, e.Hits)
	default:
		p.metrics.Descriptor(e.Domain, e.Label, metrics.NearLimit, e.Near)
		p.metrics.Descriptor(e.Domain, e.Label, metrics.WithinLimit, e.Hits)
	}
}

// observeThrottle counts what the door of RESP decided.
func (p *Program) observeThrottle(e respd.Event) {
	switch {
	case e.Err != nil:
		p.metrics.Command("cl.throttle", metrics.CommandError)
	case !e.Decision.OK:
		p.metrics.Command("cl.throttle", metrics.CommandLimited)
	default:
		p.metrics.Command("cl.throttle", metrics.CommandOK)
	}
}
