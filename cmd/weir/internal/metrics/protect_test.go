package metrics_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/protect"
)

// A reading is a Protection with constant numbers.
type reading struct {
	name string
	is   protect.Reading
}

func (r reading) Name() string          { return r.name }
func (r reading) State() string         { return "" }
func (r reading) Read() protect.Reading { return r.is }

func (r reading) Enter(context.Context, string) (func(error), error) { return nil, nil }

// A broken machine has no metric.
type broken struct{}

func (broken) CPU() (time.Duration, float64, error) { return 0, 0, io.EOF }
func (broken) Memory() (int64, int64, error)        { return 0, 0, io.EOF }
func (broken) Load() (float64, error)               { return 0, io.EOF }

// TestProtections checks the gauges of protections and system rules, also in shadow mode, and that
// those that are no longer in force end.
func TestProtections(t *testing.T) {
	m := metrics.New(metrics.Config{})
	system, err := protect.NewSystem(protect.SystemConfig{CPU: 80, InFlight: 5, Metrics: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.Protections(false)[0].Enter(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	m.System(system)
	long := strings.Repeat("x", 200)
	m.Upstreams([]metrics.Upstream{
		{Name: "http://a", Route: "/a", Protections: []protect.Protection{
			protect.Shadow(reading{"breaker", protect.Reading{State: "half-open"}}), reading{"adaptive", protect.Reading{Limit: 20, InFlight: 7, Waiters: 3}}}},
		{Name: long, Route: "/", Protections: []protect.Protection{reading{"bulkhead", protect.Reading{Limit: 1}}}},
		{Name: long + "y", Route: "/", Protections: []protect.Protection{reading{"bulkhead", protect.Reading{Limit: 2}}}},
	})
	text := exposition(t, m)
	for _, want := range []string{
		`weir_breaker_state{route="/a",state="half-open",upstream="http://a"} 1`,
		`weir_breaker_state{route="/a",state="closed",upstream="http://a"} 0`,
		`weir_protection_limit{protection="adaptive",route="/a",upstream="http://a"} 20`,
		`weir_protection_in_flight{protection="adaptive",route="/a",upstream="http://a"} 7`,
		`weir_protection_waiters{protection="adaptive",route="/a",upstream="http://a"} 3`,
		`weir_protection_limit{protection="bulkhead",route="/",upstream="` + long[:128] + `"} 1`,
		`weir_system_in_flight 1`, `weir_system_metric_missing{metric="cpu"} 1`, `weir_system_metric_missing{metric="load"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	m.System(nil)
	m.Upstreams(nil)
	if text := exposition(t, m); strings.Contains(text, "weir_system") || strings.Contains(text, "weir_breaker") {
		t.Errorf("after a reload without protections:\n%s", text)
	}
}

// exposition returns the text of the metrics.
func exposition(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
