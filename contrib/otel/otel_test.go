package weirotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/floodweir/weir"
	weirotel "github.com/floodweir/weir/contrib/otel"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/metrics"
	"github.com/floodweir/weir/policy"
)

func newPolicy(tb testing.TB, name string) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: name, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// read returns the value of each series, for a histogram its count.
func read(tb testing.TB, r sdkmetric.Reader) map[string]float64 {
	tb.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		tb.Fatal(err)
	}
	values := map[string]float64{}
	name := func(m metricdata.Metrics, set attribute.Set) string {
		s := m.Name
		for _, kv := range set.ToSlice() {
			s += fmt.Sprintf(" %s=%s", kv.Key, kv.Value.AsString())
		}
		return s
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					values[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[name(m, p.Attributes)] = float64(p.Count)
				}
			default:
				tb.Errorf("%s: %T", m.Name, data)
			}
		}
	}
	return values
}

func TestNew(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	m, err := weirotel.New(weirotel.Config{Provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Config: metrics.Config{MaxSeries: 2}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{MaxKeys: 100})
	if err != nil {
		t.Fatal(err)
	}
	m.Memory(store.Stats)
	api := newPolicy(t, "api")
	for range 3 {
		m.HTTP(nil, enforce.Event{Policy: api, Outcome: enforce.Admitted, Took: 1000})
	}
	m.RPC(t.Context(), nil, enforce.Event{Policy: api, Outcome: enforce.FailedOpen})
	m.Function(t.Context(), "f", enforce.Event{Policy: newPolicy(t, "f"), Outcome: enforce.Denied, Shadow: true})
	limiter, err := weir.New(m.Limiter("mail", m.Store(store)), weir.MustLimit("1/h"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limiter.Allow()
	limiter.Allow()
	got := read(t, reader)
	for name, want := range map[string]float64{
		"weir_decisions_total interface=http outcome=admitted policy=api":        3,
		"weir_decisions_total interface=http outcome=denied policy=api":          0,
		"weir_decisions_total interface=rpc outcome=failed_open policy=api":      1,
		"weir_degraded_decisions_total mode=open policy=api":                     1,
		"weir_shadow_decisions_total interface=function outcome=denied policy=f": 1,
		"weir_decisions_total interface=limiter outcome=admitted policy=mail":    1,
		"weir_decisions_total interface=limiter outcome=denied policy=mail":      1,
		"weir_decision_duration_seconds interface=http":                          3,
		"weir_decision_duration_seconds interface=limiter":                       2,
		"weir_store_duration_seconds op=take":                                    2,
		"weir_keys_capacity":                                                     100,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (%t), want %v", name, v, ok, want)
		}
	}

	// Series of removed policies stay, so they count for MaxSeries.
	m.Retain(func(string) bool { return false })
	m.HTTP(nil, enforce.Event{Policy: newPolicy(t, "new"), Outcome: enforce.Admitted})
	if got = read(t, reader); got["weir_decisions_total interface=http outcome=admitted policy=other"] != 1 || got["weir_series_overflow_total kind=policy"] != 1 {
		t.Errorf("a third policy of 2 is not under other: %v", got)
	}
}

// TestAllocations checks that counting a request allocates nothing, with the API alone and with
// the SDK.
func TestAllocations(t *testing.T) {
	for name, provider := range map[string]weirotel.Config{
		"noop": {Provider: noop.NewMeterProvider()},
		"SDK":  {Provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
	} {
		m, err := weirotel.New(provider)
		if err != nil {
			t.Fatal(err)
		}
		e := enforce.Event{Policy: newPolicy(t, "api"), Outcome: enforce.Denied, Took: 1000}
		observe := func() { m.HTTP(nil, e) }
		observe() // makes the series
		if n := testing.AllocsPerRun(1000, observe); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// failing is a provider whose meter makes no counters.
type failing struct{ noop.MeterProvider }

func (failing) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{} }

type failingMeter struct{ noop.Meter }

var errFull = errors.New("full")

func (failingMeter) Float64Counter(string, ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	return noop.Float64Counter{}, errFull
}

func TestError(t *testing.T) {
	if _, err := weirotel.New(weirotel.Config{Provider: failing{}}); !errors.Is(err, errFull) {
		t.Errorf("New = %v, want the error of the meter", err)
	}
}
