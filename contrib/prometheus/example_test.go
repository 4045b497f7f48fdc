package weirprometheus_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/floodweir/weir"
	weirprometheus "github.com/floodweir/weir/contrib/prometheus"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func perClient() *policy.Set {
	p, err := policy.New(policy.Config{
		Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1/h")},
	})
	if err != nil {
		panic(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		panic(err)
	}
	return set
}

func Example() {
	registry := prometheus.NewRegistry()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	m, err := weirprometheus.New(weirprometheus.Config{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Memory(store.Stats)
	limits, err := httplimit.New(m.Store(store), perClient(), httplimit.Config{Observe: m.HTTP})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", limits.Wrap(http.NotFoundHandler()))

	for range 3 {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	scrape := httptest.NewRecorder()
	mux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(scrape.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "weir_decisions_total") && !strings.HasSuffix(line, " 0") {
			fmt.Println(line)
		}
	}
	// Output:
	// weir_decisions_total{interface="http",outcome="admitted",policy="api"} 1
	// weir_decisions_total{interface="http",outcome="denied",policy="api"} 2
}
