package run

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
	"github.com/floodweir/weir/cmd/weir/internal/warning"
	"github.com/floodweir/weir/enforce"
)

// flushTimeout bounds the time to send the last traces.
const flushTimeout = 3 * time.Second

// observers counts, traces and logs the decisions of all interfaces.
type observers struct {
	metrics   *metrics.Metrics
	telemetry *telemetry.Telemetry
	decisions *decisionlog.Log
	warnings  *warning.Sender // nil before the store is open
}

func newObservers(ctx context.Context, c *config.Config, version string, getenv func(string) string, log *slog.Logger) (*observers, error) {
	o := &observers{metrics: metrics.New(metrics.Config{Version: version})}
	var err error
	if o.decisions, err = decisionlog.New(decisionlog.Config{
		Log: log, Every: c.Decisions.Admitted, Denied: c.Decisions.Denied,
		Keys: decisionlog.Keys(c.Decisions.Keys),
	}); err != nil {
		return nil, err
	}
	o.telemetry, err = telemetry.Start(ctx, telemetry.Config{
		ServiceName: "weir", Version: version, Gatherer: o.metrics.Gatherer(), Getenv: getenv, Log: log,
	})
	return o, err
}

// close sends the last traces. It takes at most flushTimeout, even if ctx has ended.
func (o *observers) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	o.telemetry.Shutdown(ctx)
}

// http returns the Observe function of the middleware of an interface.
func (o *observers) http(name string) func(*http.Request, enforce.Event) {
	return func(r *http.Request, e enforce.Event) {
		ctx := r.Context()
		o.metrics.Observe(name, e)
		o.telemetry.Decision(ctx, name, e)
		if o.warnings != nil {
			o.warnings.Observe(e)
		}
		o.decisions.Observe(ctx, name, e, slog.String("method", r.Method), slog.String("path", r.URL.Path))
	}
}

// resetDescriptors replaces the series of the descriptors with those of limits. They
// exist before the first request, so names from requests cannot fill MaxSeries first.
func (o *observers) resetDescriptors(limits *ratelimit.Config) {
	o.metrics.ForgetDescriptors()
	for _, d := range limits.Domains() {
		for _, path := range d.Paths() {
			o.metrics.Descriptor(d.Name, path, metrics.TotalHits, 0)
		}
	}
}

// grpc counts a decision of the gRPC interface as envoyproxy/ratelimit counts it.
func (o *observers) grpc(e rls.Event) {
	if e.Domain == "" || e.Err != nil {
		return
	}
	o.metrics.Descriptor(e.Domain, e.Label, metrics.TotalHits, e.Hits)
	switch {
	case !e.OK && e.Shadow:
		o.metrics.Descriptor(e.Domain, e.Label, metrics.ShadowMode, e.Hits)
		fallthrough
	case !e.OK:
		o.metrics.Descriptor(e.Domain, e.Label, metrics.OverLimit, e.Hits)
	default:
		o.metrics.Descriptor(e.Domain, e.Label, metrics.NearLimit, e.Near)
		o.metrics.Descriptor(e.Domain, e.Label, metrics.WithinLimit, e.Hits)
	}
}

// resp counts a decision of the RESP interface.
func (o *observers) resp(e respd.Event) {
	switch {
	case e.Err != nil:
		o.metrics.Command("cl.throttle", metrics.CommandError)
	case !e.Decision.OK:
		o.metrics.Command("cl.throttle", metrics.CommandLimited)
	default:
		o.metrics.Command("cl.throttle", metrics.CommandOK)
	}
}
