package run

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
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
	traffic   *traffic.Recorder
	seed      uint64 // of its samples of keys
	names     *keyid.Names
	domains   sync.Map // of the gRPC interface, to *traffic.Source
}

func newObservers(ctx context.Context, c *config.Config, version string, getenv func(string) string, log *slog.Logger) (*observers, error) {
	o := &observers{metrics: metrics.New(metrics.Config{Version: version}), seed: rand.Uint64() | 1, names: keyid.New()}
	o.traffic = traffic.New(traffic.Config{Seed: o.seed})
	var err error
	if o.decisions, err = decisionlog.New(decisionlog.Config{
		Log: log, Every: c.Decisions.Admitted, Denied: c.Decisions.Denied,
		Keys: decisionlog.Keys(c.Decisions.Keys),
	}); err != nil {
		return nil, err
	}
	o.telemetry, err = telemetry.Start(ctx, telemetry.Config{
		ServiceName: serviceName(c), Version: version, Gatherer: o.metrics.Gatherer(), Getenv: getenv, Log: log,
	})
	return o, err
}

func serviceName(c *config.Config) string {
	if c.RateLimit != nil {
		return c.RateLimit.ServiceName
	}
	return "weir"
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
		o.traffic.Observe(e)
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

// api returns the Observe function of the HTTP API. Its store measures the time for the metrics.
func (o *observers) api() func(enforce.Event) {
	source := o.traffic.Source("interface:http")
	return func(e enforce.Event) {
		switch {
		case e.Policy != nil:
			o.traffic.Observe(e)
			e.Took = 0
			o.metrics.Observe("http", e)
		case e.Outcome == enforce.Admitted:
			source.Count(traffic.Admitted, e.Took)
		case e.Outcome == enforce.Denied:
			source.Count(traffic.Denied, e.Took)
		case !errors.Is(e.Err, context.Canceled):
			source.Count(traffic.Overloaded, 0)
		}
	}
}

// domain returns the source of a configured domain of the gRPC interface.
func (o *observers) domain(name string) *traffic.Source {
	s, ok := o.domains.Load(name)
	if !ok {
		s, _ = o.domains.LoadOrStore(name, o.traffic.Source("grpc:"+name))
	}
	return s.(*traffic.Source)
}

// grpc counts a decision of the gRPC interface as envoyproxy/ratelimit counts it.
func (o *observers) grpc(e rls.Event) {
	if e.Domain == "" {
		return
	}
	switch source := o.domain(e.Domain); {
	case e.Err != nil:
		source.Count(traffic.Overloaded, 0)
		return
	case e.Hits == 0: // a check
	case e.OK:
		source.Count(traffic.Admitted, 0)
	case e.Shadow:
		source.Count(traffic.Shadow, 0)
	default:
		source.Count(traffic.Denied, 0)
	}
	hits := metrics.Hits{Total: e.Hits}
	switch {
	case e.OK:
		hits.Near, hits.Within = e.Near, e.Hits
	case e.Shadow:
		hits.Shadow = e.Hits
		fallthrough
	default:
		hits.Over = e.Hits
	}
	o.metrics.DescriptorHits(e.Domain, e.Label, hits)
}

// resp returns the Observe function of the RESP interface, which counts a decision once.
func (o *observers) resp() func(respd.Event) {
	source, took := o.traffic.Source("interface:resp"), o.metrics.DecisionTime("resp")
	return func(e respd.Event) {
		took.Observe(e.Took.Seconds())
		result, column := metrics.CommandOK, traffic.Admitted
		switch {
		case e.Err != nil:
			result, column, e.Took = metrics.CommandError, traffic.Overloaded, 0
		case !e.Decision.OK:
			result, column = metrics.CommandLimited, traffic.Denied
		}
		o.metrics.Command("cl.throttle", result)
		if e.Request.Verb == weir.Take && !errors.Is(e.Err, weir.ErrInvalid) && !errors.Is(e.Err, context.Canceled) {
			source.Count(column, e.Took)
		}
	}
}
