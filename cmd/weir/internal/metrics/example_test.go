package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func Example() {
	m := metrics.New(metrics.Config{Version: "v1.2.3"})
	memory, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	store := m.Interface("gateway", m.Store(memory))
	p, err := policy.New(policy.Config{
		Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		panic(err)
	}
	d, err := store.Do(context.Background(), weir.Request{Key: "api|11:203.0.113.7", Limit: weir.MustLimit("10/s"), N: 1})
	if err != nil {
		panic(err)
	}
	m.Observe("gateway", enforce.Event{Policy: p, Outcome: enforce.Admitted, Decision: d})

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "weir_decisions_total") && strings.Contains(line, "admitted") {
			fmt.Print(line)
		}
	}
	// Output: weir_decisions_total{interface="gateway",outcome="admitted",policy="api"} 1
}
