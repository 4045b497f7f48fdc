package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/share"
)

func newPolicy(tb testing.TB, name string, mode policy.Mode) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: name, Mode: mode, Key: []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// shared returns a policy with tenants.
func shared(tb testing.TB) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: "shared", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s burst 10")},
		Tenants: []policy.Tenant{{Key: []string{"*"}, Weight: 1, Burst: 1}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func newSet(tb testing.TB, ps ...*policy.Policy) *policy.Set {
	tb.Helper()
	s, err := policy.NewSet(ps...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// scrape reads the metrics of m as Prometheus does.
func scrape(tb testing.TB, m *metrics.Metrics) map[string]*dto.MetricFamily {
	tb.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		tb.Fatalf("GET /metrics = %d %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		tb.Fatalf("the answer cannot be read: %v", err)
	}
	return families
}

// value returns the value of the series with the given labels, in order; NaN if there is
// none.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		if fmt.Sprint(values(m)) != fmt.Sprint(labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	return math.NaN()
}

// values returns the labels of m without their names, in the order of the names.
func values(m *dto.Metric) []string {
	all := []string{}
	for _, l := range m.GetLabel() {
		all = append(all, l.GetValue())
	}
	return all
}

func wantValue(t *testing.T, families map[string]*dto.MetricFamily, want float64, name string, labels ...string) {
	t.Helper()
	if got := value(families, name, labels...); got != want {
		t.Errorf("%s%v = %v, want %v", name, labels, got, want)
	}
}

func TestObserve(t *testing.T) {
	m := metrics.New(metrics.Config{})
	enforced, shadow := newPolicy(t, "api", policy.Enforce), newPolicy(t, "trial", policy.Shadow)
	for _, e := range []struct {
		n int
		enforce.Event
	}{
		{7, enforce.Event{Policy: enforced, Outcome: enforce.Admitted}},
		{5, enforce.Event{Policy: enforced, Outcome: enforce.Denied}},
		{3, enforce.Event{Policy: enforced, Outcome: enforce.Held}},
		{2, enforce.Event{Policy: enforced, Outcome: enforce.FailedOpen, Err: weir.ErrUnavailable}},
		{1, enforce.Event{Policy: enforced, Outcome: enforce.FailedClosed, Err: weir.ErrUnavailable}},
		{4, enforce.Event{Policy: enforced, Outcome: enforce.Admitted, Decision: weir.Decision{Degraded: policy.Local}}},
		{6, enforce.Event{Policy: shadow, Shadow: true, Outcome: enforce.Denied}},
		{8, enforce.Event{Policy: shadow, Shadow: true, Outcome: enforce.Admitted}},
		{9, enforce.Event{Policy: enforced, Shadow: true, Outcome: enforce.Denied}}, // a key that is not in its percent
		{2, enforce.Event{Policy: enforced, Outcome: enforce.FailedClosed, Err: fmt.Errorf("redis: %w", context.Canceled)}},
		{6, enforce.Event{Policy: enforced, Outcome: enforce.Overloaded, Err: weir.ErrOverloaded}},
		{3, enforce.Event{Policy: enforced, Outcome: enforce.Unsettled, Err: weir.ErrUnavailable}},
		{2, enforce.Event{Policy: enforced, Outcome: enforce.Unpriced, Err: budget.ErrNoUsage}},
		{1, enforce.Event{Policy: enforced, Outcome: enforce.Unpriced, Err: budget.ErrUnknownModel}},
		{2, enforce.Event{Policy: enforced, Outcome: enforce.Exhausted}},
		{1, enforce.Event{Policy: enforced, Outcome: enforce.Admitted, Fault: errors.New("no such key")}},
		{1, enforce.Event{Policy: enforced, Outcome: "new"}},
	} {
		for range e.n {
			m.Observe("gateway", e.Event)
		}
	}
	m.Observe("gateway", enforce.Event{}) // no policy: nothing to count
	got := scrape(t, m)
	for outcome, want := range map[string]float64{"admitted": 12, "denied": 5, "held": 3, "failed_open": 2, "failed_closed": 1, "canceled": 2, "overloaded": 6, "other": 1} {
		wantValue(t, got, want, "weir_decisions_total", "gateway", outcome, "api")
	}
	wantValue(t, got, 6, "weir_shadow_decisions_total", "gateway", "denied", "trial")
	wantValue(t, got, 9, "weir_shadow_decisions_total", "gateway", "denied", "api")
	wantValue(t, got, 8, "weir_shadow_decisions_total", "gateway", "admitted", "trial")
	if v := value(got, "weir_decisions_total", "gateway", "denied", "trial"); !math.IsNaN(v) {
		t.Errorf("a denial in shadow is counted as one that was enforced: %v", v)
	}
	wantValue(t, got, 4, "weir_degraded_decisions_total", "local", "api")
	wantValue(t, got, 2, "weir_degraded_decisions_total", "open", "api")
	wantValue(t, got, 1, "weir_degraded_decisions_total", "closed", "api")
	wantValue(t, got, 3, "weir_unsettled_total", "api")
	wantValue(t, got, 2, "weir_budget_unpriced_total", "api", "no_usage")
	wantValue(t, got, 1, "weir_budget_unpriced_total", "api", "unknown_model")
	wantValue(t, got, 2, "weir_budget_exhausted_total", "api")
	wantValue(t, got, 1, "weir_expression_errors_total", "api")
	wantValue(t, got, 0, "weir_expression_errors_total", "trial")
}

func TestReloaded(t *testing.T) {
	m := metrics.New(metrics.Config{Version: "v1.2.3"})
	a, b := newPolicy(t, "a", policy.Enforce), newPolicy(t, "b", policy.Enforce)
	m.Reloaded("7", newSet(t, a, b), nil)
	for _, p := range []*policy.Policy{a, b} {
		m.Observe("http", enforce.Event{Policy: p, Outcome: enforce.Denied})
		m.Observe("http", enforce.Event{Policy: p, Outcome: enforce.Unpriced})
	}
	m.Reloaded("", nil, errors.New("line 3: no such field"))
	got := scrape(t, m)
	wantValue(t, got, 1, "weir_policies_reload_total", "success")
	wantValue(t, got, 1, "weir_policies_reload_total", "failure")
	wantValue(t, got, 0, "weir_policies_last_reload_successful")
	wantValue(t, got, 1, "weir_policies_version", "7")
	wantValue(t, got, 1, "weir_decisions_total", "http", "denied", "b")
	wantValue(t, got, 1, "weir_build_info", runtime.Version(), "v1.2.3")
	if v := value(got, "weir_policies_reload_success_timestamp_seconds"); v < 1e9 {
		t.Errorf("the time of the reload = %v", v)
	}

	m.Reloaded("8", newSet(t, newPolicy(t, "a", policy.Enforce)), nil)
	m.Observe("http", enforce.Event{Policy: a, Outcome: enforce.Denied})
	got = scrape(t, m)
	wantValue(t, got, 1, "weir_policies_last_reload_successful")
	wantValue(t, got, 2, "weir_decisions_total", "http", "denied", "a")
	if n := len(got["weir_policies_version"].GetMetric()); n != 1 {
		t.Errorf("%d versions, want the one in use", n)
	}
	for name, f := range got {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetName() == "policy" && l.GetValue() == "b" {
					t.Errorf("%s still has a series of a policy that is not in use", name)
				}
			}
		}
	}
}

// TestStats checks the metrics of the memory store and of the Redis store.
func TestStats(t *testing.T) {
	m := metrics.New(metrics.Config{})
	if got := scrape(t, m); got["weir_keys"] != nil {
		t.Error("weir_keys without a store in memory")
	}
	store, err := memstore.New(memstore.Config{MaxKeys: 100})
	if err != nil {
		t.Fatal(err)
	}
	m.Memory(store.Stats)
	m.Failover(func() failover.Stats {
		return failover.Stats{
			State: failover.Slow, Overloaded: true, InProgress: 1, Queued: 2, Unavailable: 3, LateReplies: 4,
			QueueFull: 5, QueueWait: 6, Scheduling: 7, SchedulingDelay: 1500 * time.Millisecond,
		}
	})
	m.DenyCache(func() denycache.Stats { return denycache.Stats{Repeated: 8, Keys: 9} })
	m.Shares(func() share.Stats {
		return share.Stats{Shares: 10, Keys: 11, Local: 12, Ledger: 13, Strict: 14, Conflicts: 15, Stranded: 0.25}
	})
	m.Misconfigured(true)
	if _, err := store.Do(context.Background(), weir.Request{Key: "k", Limit: weir.MustLimit("1/h"), N: 1}); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, m)
	wantValue(t, got, 1, "weir_keys")
	wantValue(t, got, 100, "weir_keys_capacity")
	wantValue(t, got, 1, "weir_store_misconfigured")
	m.Misconfigured(false)
	for name, want := range map[string]float64{
		"weir_store_breaker_open": 1, "weir_store_calls_in_progress": 1, "weir_store_calls_waiting": 2, "weir_store_undecided_total": 3,
		"weir_store_late_replies_total": 4, "weir_overloaded": 1, "weir_scheduling_delay_seconds_total": 1.5,
		"weir_denials_repeated_total": 8, "weir_denials_cached": 9,
		"weir_shares_held": 10, "weir_shares_keys": 11, "weir_shares_conflicts_total": 15, "weir_shares_stranded": 0.25,
	} {
		wantValue(t, got, want, name)
	}
	for state, want := range map[string]float64{"up": 0, "slow": 1, "down": 0} {
		wantValue(t, got, want, "weir_store_state", state)
	}
	for by, want := range map[string]float64{"share": 12, "ledger": 13, "strict": 14} {
		wantValue(t, got, want, "weir_shares_decisions_total", by)
	}
	for reason, want := range map[string]float64{"queue_full": 5, "queue_wait": 6, "scheduling": 7} {
		wantValue(t, got, want, "weir_overload_rejected_total", reason)
	}
	m.Failover(nil)
	m.Memory(nil)
	got = scrape(t, m)
	wantValue(t, got, 0, "weir_store_breaker_open")
	wantValue(t, got, 1, "weir_store_state", "up")
	wantValue(t, got, 0, "weir_store_misconfigured")
	if got["weir_keys"] != nil {
		t.Error("weir_keys after the store in memory is gone")
	}
}

func TestDescriptorAndCommand(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.DescriptorHits("checkout", "tenant_acme", metrics.Hits{Total: 3, Over: 2, Near: 4, Within: 5, Shadow: 6})
	m.Descriptor("checkout", "tenant_acme", "no such result", 1)
	m.Command("CL.THROTTLE", metrics.CommandLimited)
	m.Command("cl.Throttle", metrics.CommandOK)
	m.Command("PING", metrics.CommandOK)
	m.Command("FLUSHALL", metrics.CommandError)
	m.Command("", "")
	m.Command(strings.Repeat("x", 1<<20), metrics.CommandError)
	got := scrape(t, m)
	wantValue(t, got, 3, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "total_hits")
	wantValue(t, got, 2, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "over_limit")
	wantValue(t, got, 4, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "near_limit")
	wantValue(t, got, 5, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "within_limit")
	wantValue(t, got, 6, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "shadow_mode")
	wantValue(t, got, 1, "weir_ratelimit_hits_total", "tenant_acme", "checkout", "other")
	wantValue(t, got, 1, "weir_resp_commands_total", "cl.throttle", "limited")
	wantValue(t, got, 1, "weir_resp_commands_total", "cl.throttle", "ok")
	wantValue(t, got, 1, "weir_resp_commands_total", "ping", "ok")
	wantValue(t, got, 3, "weir_resp_commands_total", "other", "error")

	m.ForgetDescriptors()
	m.Descriptor("checkout", "tenant_b", metrics.TotalHits, 1)
	got = scrape(t, m)
	if n := len(got["weir_ratelimit_hits_total"].GetMetric()); n != 6 {
		t.Errorf("%d series of hits after the old ones were forgotten, want 6", n)
	}
}

// everything returns Metrics in which every metric has a value.
func everything(tb testing.TB) *metrics.Metrics {
	m := metrics.New(metrics.Config{})
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	m.Memory(store.Stats)
	p := newPolicy(tb, "api", policy.Enforce)
	m.Reloaded("1", newSet(tb, p), nil)
	m.Observe("gateway", enforce.Event{Policy: p, Outcome: enforce.Admitted})
	m.Observe("gateway", enforce.Event{Policy: newPolicy(tb, "trial", policy.Shadow), Shadow: true, Outcome: enforce.Admitted})
	m.Descriptor("d", "k", metrics.TotalHits, 1)
	r := weir.Request{Key: "k", Limit: weir.MustLimit("1/s"), N: 1}
	if _, err := m.Interface("gateway", m.Store(store)).Do(context.Background(), r); err != nil {
		tb.Fatal(err)
	}
	store.Close()
	if _, err := m.Store(store).Do(context.Background(), r); !errors.Is(err, weir.ErrClosed) {
		tb.Fatalf("a closed store: %v", err)
	}
	return m
}

// TestLint checks names and units by the rules of Prometheus.
func TestLint(t *testing.T) {
	w := httptest.NewRecorder()
	everything(t).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	problems, err := promlint.New(w.Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestHistograms checks that histograms have classic buckets and native ones.
func TestHistograms(t *testing.T) {
	families, err := everything(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h != nil && strings.HasPrefix(f.GetName(), "weir_") {
			if n++; len(h.GetBucket()) < 10 || len(h.GetPositiveSpan()) == 0 || h.GetSampleSum() <= 0 || h.GetSampleSum() > 10 {
				t.Errorf("%s = %v", f.GetName(), h)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d histograms, want 2", n)
	}
}

// TestNothingGlobal checks that two Metrics share nothing.
func TestNothingGlobal(t *testing.T) {
	a, b := everything(t), metrics.New(metrics.Config{})
	if got := scrape(t, b); got["weir_decisions_total"] != nil {
		t.Errorf("one sees what the other counts: %v", got["weir_decisions_total"])
	}
	if scrape(t, a)["go_goroutines"] == nil || scrape(t, a)["process_cpu_seconds_total"] == nil {
		t.Error("nothing of the process")
	}
}

// TestBorrowed checks that admitted requests with borrowed tokens are counted, only for policies
// with tenants.
func TestBorrowed(t *testing.T) {
	m, tenants := metrics.New(metrics.Config{}), shared(t)
	borrowed := weir.Decision{OK: true, Borrowed: true}
	for _, e := range []enforce.Event{
		{Policy: tenants, Outcome: enforce.Admitted, Decision: borrowed},
		{Policy: tenants, Outcome: enforce.Admitted, Decision: weir.Decision{OK: true}},
		{Policy: tenants, Outcome: enforce.Held, Decision: borrowed},
		{Policy: newPolicy(t, "other", policy.Enforce), Outcome: enforce.Admitted, Decision: borrowed},
	} {
		m.Observe("http", e)
	}
	got := scrape(t, m)
	wantValue(t, got, 1, "weir_borrowed_total", "shared")
	if n := len(got["weir_borrowed_total"].GetMetric()); n != 1 {
		t.Errorf("%d series, want 1", n)
	}
}

// TestPage compares the table of docs/operations.md with the metrics.
func TestPage(t *testing.T) {
	const file = "../../../../docs/operations.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`weir_[^|]*) \\|([^|]*)\\|[^|]*\\|$").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`(weir_[a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			kind := "gauge"
			switch {
			case strings.HasSuffix(name[1], "_total"):
				kind = "counter"
			case strings.HasSuffix(name[1], "_duration_seconds"):
				kind = "histogram"
			}
			documented[name[1]] = kind + " " + strings.Join(strings.FieldsFunc(row[2], func(r rune) bool { return !unicode.IsLetter(r) && r != '_' }), " ")
		}
	}
	m := everything(t)
	m.Connected("http", 1)
	m.ConnectionRefused("http")
	m.QuotaService([]string{"edge"}, []string{"assigned"}, func() (streams, buckets int64) { return 3, 5 })
	m.Quota("edge", "assigned")
	system, err := protect.NewSystem(protect.SystemConfig{CPU: 80})
	if err != nil {
		t.Fatal(err)
	}
	m.System(system)
	m.Upstreams([]metrics.Upstream{{Name: "http://a", Route: "/", Protections: []protect.Protection{reading{"breaker", protect.Reading{State: "open"}}, reading{"bulkhead", protect.Reading{}}}}})
	m.Protection("http://127.0.0.1:3000")("breaker", false)
	m.Observe("d", enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Unsettled})
	m.Observe("d", enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Unpriced})
	m.Observe("d", enforce.Event{Policy: shared(t), Outcome: enforce.Admitted, Decision: weir.Decision{OK: true, Borrowed: true}})
	families := scrape(t, m)
	if got := families["weir_borrowed_total"].GetMetric()[0].GetCounter().GetValue(); got != 1 {
		t.Errorf("weir_borrowed_total %v, want 1", got)
	}
	streams, buckets := families["weir_quota_streams"].GetMetric()[0].GetGauge().GetValue(), families["weir_quota_buckets"].GetMetric()[0].GetGauge().GetValue()
	if got := families["weir_quota_actions_total"].GetMetric()[0].GetCounter().GetValue(); got != 1 || streams != 3 || buckets != 5 {
		t.Errorf("quota service: %v actions, %v streams and %v buckets, want 1, 3 and 5", got, streams, buckets)
	}
	testDashboard(t, families)
	for name, f := range families {
		if !strings.HasPrefix(name, "weir_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		is := strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, " ")
		if documented[name] != is {
			t.Errorf("%s says of %s %q, which is %q", file, name, documented[name], is)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s has %s, which there is not", file, name)
	}

	// And the alerts are about metrics that there are.
	rules, err := os.ReadFile("../../../../docs/examples/weir.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`weir_[a-z_]+`).FindAllString(string(rules), -1)
	for _, name := range names {
		if families[strings.TrimSuffix(name, "_bucket")] == nil {
			t.Errorf("an alert is about %s, which there is not", name)
		}
	}
	alerts := regexp.MustCompile(`(?m)alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	for _, a := range alerts {
		if !strings.Contains(string(page), "`"+a[1]+"`") {
			t.Errorf("%s does not say what %s means", file, a[1])
		}
	}
	if len(names) < 10 || len(alerts) < 10 {
		t.Errorf("%d names in %d alerts", len(names), len(alerts))
	}
}
