package weirprometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/floodweir/weir"
	weirprometheus "github.com/floodweir/weir/contrib/prometheus"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/metrics"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/rpclimit"
	"github.com/floodweir/weir/share"
)

// ofTheProgram are the metrics of the program weir that a Go program does not have.
var ofTheProgram = []string{
	"weir_budget_webhooks_total", "weir_connections", "weir_connections_refused_total", "weir_policies_last_reload_successful",
	"weir_policies_version", "weir_store_misconfigured",
}

// scrape runs a Go program that uses each part of the library with limits, and returns its metrics
// with their labels.
func scrape(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m, err := weirprometheus.New(weirprometheus.Config{Registerer: registry})
	must(t, err)
	memory, err := memstore.New(memstore.Config{})
	must(t, err)
	t.Cleanup(func() { memory.Close() })
	m.Memory(memory.Stats)
	redis, err := failover.New(memory, failover.Config{ObserveCall: m.StoreCalls()})
	must(t, err)
	m.Failover(redis.Stats)
	store, err := denycache.New(redis, denycache.Config{})
	must(t, err)
	m.DenyCache(store.Stats)
	shares, err := share.New(memory, share.NewMemory(nil), share.Config{})
	must(t, err)
	t.Cleanup(func() { shares.Close() })
	m.Shares(shares.Stats)

	// HTTP requests, the second of which is denied, behind a protection that rejects the third.
	system, err := protect.NewSystem(protect.SystemConfig{CPU: 80})
	must(t, err)
	m.System(system)
	last := &rejecting{}
	m.Upstreams([]metrics.Upstream{{Name: "orders", Protections: []protect.Protection{last, breaker{}}}})
	chain := protect.New(protect.Config{Protections: []protect.Protection{last}, Observe: m.Protection("orders")})
	limits, err := httplimit.New(store, perClient(), httplimit.Config{Observe: m.HTTP})
	must(t, err)
	handler := httplimit.Protect(httplimit.ProtectConfig{Chain: chain})(limits.Wrap(http.NotFoundHandler()))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", handler)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	get := func(path string, status int) string {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != status {
			t.Errorf("%s = %d, want %d", path, resp.StatusCode, status)
		}
		return string(body)
	}
	get("/", 404)
	get("/", 429)
	last.rejects = true
	get("/", 503)

	// A function, a call of an RPC framework, and a limiter; the last has a store that is closed.
	registryOfGuards, err := guard.NewRegistry(guard.Config{Store: store, Observe: m.Function})
	must(t, err)
	g, err := registryOfGuards.Guard(guard.Resource{Name: "f", Limits: []weir.Limit{weir.MustLimit("1/h")}})
	must(t, err)
	entry, err := g.Enter(t.Context(), "")
	must(t, err)
	entry.Exit(nil)
	calls, _, err := rpclimit.NewEnforcers(store, perClient(), rpclimit.ServerConfig{Observe: m.RPC})
	must(t, err)
	var a enforce.Admission
	calls.Enter(t.Context(), attributes{}, &a)
	closed, err := memstore.New(memstore.Config{})
	must(t, err)
	must(t, closed.Close())
	limiter, err := weir.New(m.Limiter("mail", m.Store(closed)), weir.MustLimit("1/s"), weir.Config{})
	must(t, err)
	limiter.Allow()

	// What needs a response with a cost, tenants or an expression.
	shadow := enforce.Event{Policy: perClient().Policies()[0], Shadow: true, Outcome: enforce.Denied}
	m.HTTP(nil, shadow)
	p, err := policy.New(policy.Config{
		Name: "shared", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s burst 10")},
		Tenants: []policy.Tenant{{Key: []string{"*"}, Weight: 1, Burst: 1}},
	})
	must(t, err)
	m.HTTP(nil, enforce.Event{Policy: p, Outcome: enforce.Admitted})
	m.HTTP(nil, enforce.Event{Policy: p, Outcome: enforce.Unpriced})

	labels := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? `).FindAllStringSubmatch(get("/metrics", 200), -1) {
		var names []string
		for _, l := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(line[2], -1) {
			if l[1] != "le" {
				names = append(names, l[1])
			}
		}
		labels[line[1]] = names
	}
	return labels
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rejecting is a protection that rejects every request if rejects is set.
type rejecting struct{ rejects bool }

func (r *rejecting) Name() string          { return "bulkhead" }
func (r *rejecting) State() string         { return "" }
func (r *rejecting) Read() protect.Reading { return protect.Reading{Limit: 1} }
func (r *rejecting) Enter(context.Context, string) (func(error), error) {
	if r.rejects {
		return nil, errors.New("full")
	}
	return nil, nil
}

// breaker is an open circuit breaker.
type breaker struct{}

func (breaker) Name() string                                       { return "breaker" }
func (breaker) State() string                                      { return "open" }
func (breaker) Read() protect.Reading                              { return protect.Reading{State: "open"} }
func (breaker) Enter(context.Context, string) (func(error), error) { return nil, nil }

// attributes describe a call without metadata.
type attributes struct{}

func (attributes) Method() string         { return "POST" }
func (attributes) Host() string           { return "orders" }
func (attributes) Path() string           { return "/orders.Orders/Get" }
func (attributes) Header(string) []string { return nil }
func (attributes) Query(string) []string  { return nil }
func (attributes) Cookie(string) []string { return nil }
func (attributes) ClientIP() netip.Addr   { return netip.MustParseAddr("203.0.113.7") }

// TestDashboard checks that a Go program has the metrics, with the labels, of every panel of the
// dashboard, except those of the program weir.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/weir.json")
	must(t, err)
	var dashboard struct {
		Templating struct{ List []struct{ Query string } }
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	has := scrape(t)
	missing, rows := map[string]bool{}, map[string]bool{}
	check := func(where, expr string) {
		for _, s := range regexp.MustCompile(`\b((?:weir|process|go)_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1) {
			own, ok := has[s[1]]
			if !ok {
				missing[s[1]] = true
				if !slices.Contains(ofTheProgram, s[1]) {
					t.Errorf("%s: a Go program has no %s", where, s[1])
				}
				continue
			}
			for _, l := range regexp.MustCompile(`([a-z]+)(?:=|!)`).FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(append([]string{"job", "instance"}, own...), l[1]) {
					t.Errorf("%s: %s of a Go program has no label %s", where, s[1], l[1])
				}
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		check("variable", v.Query)
	}
	for _, p := range dashboard.Panels {
		rows[p.Title] = true
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	if !rows["Go programs"] {
		t.Error("no row for Go programs")
	}
	if got := slices.Sorted(maps.Keys(missing)); !slices.Equal(got, ofTheProgram) {
		t.Errorf("a Go program does not have %q, want %q", got, ofTheProgram)
	}
}

// TestPage checks that the pages have the metrics of a Go program, with their labels, and the
// example's code. The pages name those of operations.md that a Go program does not have.
func TestPage(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	must(t, err)
	has := scrape(t)
	for _, name := range []string{"metrics.md", "metrics.zh-CN.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		must(t, err)
		documented := operationsMetrics(t)
		for _, absent := range regexp.MustCompile("`(weir_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
			if _, ok := documented[absent[1]]; !ok {
				t.Errorf("%s: operations.md has no %s", name, absent[1])
			}
			delete(documented, absent[1])
		}
		for metric, labels := range documented {
			own, ok := has[metric]
			if !ok {
				own, ok = has[metric+"_count"]
			}
			if !ok || !slices.Equal(own, labels) {
				t.Errorf("%s: %s has the labels %q, want %q", name, metric, labels, own)
			}
		}
		for metric := range has {
			metric = regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(metric, "")
			if _, ok := documented[metric]; strings.HasPrefix(metric, "weir_") && !ok {
				t.Errorf("%s: no %s", name, metric)
			}
		}
		snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		for _, s := range snippets {
			if !strings.Contains(flush(string(example)), flush(s[1])) {
				t.Errorf("%s: the example does not have\n%s", name, s[1])
			}
		}
		if len(snippets) == 0 {
			t.Errorf("%s: no code", name)
		}
	}
}

// operationsMetrics returns the labels of each metric in the table of docs/operations.md.
func operationsMetrics(t *testing.T) map[string][]string {
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	quoted := regexp.MustCompile("`([a-z_]+)`")
	labels := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`weir_[^|]*) \\|([^|]*)\\|[^|]*\\|$").FindAllStringSubmatch(string(page), -1) {
		var own []string
		for _, l := range quoted.FindAllStringSubmatch(row[2], -1) {
			own = append(own, l[1])
		}
		for _, n := range quoted.FindAllStringSubmatch(row[1], -1) {
			labels[n[1]] = own
		}
	}
	return labels
}

// flush returns text without indentation.
func flush(text string) string { return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "") }

// TestShortForm checks that a limiter's store counts the decisions of httplimit.Limit too.
func TestShortForm(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := weirprometheus.New(weirprometheus.Config{Registerer: registry})
	must(t, err)
	store, err := memstore.New(memstore.Config{})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	handler := httplimit.Limit(m.Limiter("api", store), "1/h", httplimit.ByIP)(http.NotFoundHandler())
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	got := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(got, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`weir_decisions_total{interface="limiter",outcome="admitted",policy="api"} 1`, `weir_decisions_total{interface="limiter",outcome="denied",policy="api"} 2`,
	} {
		if !strings.Contains(got.Body.String(), want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

// TestNew checks that a registry has the metrics once, and none of a New that failed.
func TestNew(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, err := weirprometheus.New(weirprometheus.Config{Registerer: registry})
	must(t, err)
	before, err := registry.Gather()
	must(t, err)
	if _, err := weirprometheus.New(weirprometheus.Config{Registerer: registry}); err == nil {
		t.Error("a second New of a registry has no error")
	}
	if after, err := registry.Gather(); err != nil || len(after) != len(before) {
		t.Errorf("%d metrics after it, %v; want %d", len(after), err, len(before))
	}
}

// admitting is a store that admits everything.
type admitting struct{}

func (admitting) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{OK: true}, nil
}

func (admitting) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return true, nil
}

// TestAllocations checks that the hooks allocate nothing for names that were used before.
func TestAllocations(t *testing.T) {
	m, err := weirprometheus.New(weirprometheus.Config{Registerer: prometheus.NewRegistry()})
	must(t, err)
	e := enforce.Event{Policy: perClient().Policies()[0], Outcome: enforce.Denied, Took: time.Millisecond}
	limited := m.Limiter("mail", m.Store(admitting{}))
	for name, f := range map[string]func(){
		"HTTP":     func() { m.HTTP(nil, e) },
		"RPC":      func() { m.RPC(context.Background(), nil, e) },
		"Function": func() { m.Function(context.Background(), "f", e) },
		"Limiter":  func() { limited.Do(context.Background(), weir.Request{N: 1}) },
	} {
		f() // makes the series
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
