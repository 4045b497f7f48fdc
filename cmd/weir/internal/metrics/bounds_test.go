package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestSeriesAreBounded checks that a million names of each kind from clients make a
// bounded number of series.
func TestSeriesAreBounded(t *testing.T) {
	const most = 100
	m := metrics.New(metrics.Config{MaxSeries: most})
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m.Memory(store.Stats)
	asked := m.Interface("gateway", m.Store(store))
	p := newPolicy(t, "api", policy.Enforce)
	limit := weir.MustLimit("10/s")
	for i := range million {
		key := fmt.Sprintf("api|%d:%d", len(fmt.Sprint(i)), i)
		d, err := asked.Do(context.Background(), weir.Request{Key: key, Limit: limit, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.Observe("gateway", enforce.Event{Policy: p, Key: key, Outcome: enforce.Admitted, Decision: d})
		m.Descriptor(fmt.Sprint("domain", i%3), key, metrics.OverLimit, 1)
		m.Command(key, metrics.CommandError)
	}
	const policies = million / 10 // come and go without a reload that says so
	for i := range policies {
		p := newPolicy(t, fmt.Sprint("policy-", i), policy.Enforce)
		for _, shadow := range []bool{false, true} {
			m.Observe(fmt.Sprint("interface", i%100), enforce.Event{Policy: p, Shadow: shadow, Outcome: enforce.Denied, Fault: weir.ErrInvalid})
		}
		m.Reloaded(strings.Repeat(p.Name(), 100), nil, nil)
	}
	got := scrape(t, m)
	series, ours := 0, 0
	for name, f := range got {
		n := len(f.GetMetric())
		if f.GetMetric()[0].Histogram != nil {
			n *= len(f.GetMetric()[0].Histogram.GetBucket()) + 3
		}
		series += n
		if strings.HasPrefix(name, "weir_") {
			ours += n
		}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if len(l.GetValue()) > 2*128 {
					t.Fatalf("%s has a label of %d bytes", name, len(l.GetValue()))
				}
			}
		}
	}
	for name, want := range map[string]int{
		"weir_decisions_total":          (most + 1) * 17 * 6,
		"weir_shadow_decisions_total":   (most + 1) * 17 * 6,
		"weir_unsettled_total":          most + 1,
		"weir_budget_exhausted_total":   most + 1,
		"weir_degraded_decisions_total": (most + 1) * 3,
		"weir_expression_errors_total":  most + 1,
		"weir_ratelimit_hits_total":     (most + 1) * 6,
		"weir_policies_version":         1,
		"weir_resp_commands_total":      17*2 + 3,
	} {
		n := len(got[name].GetMetric())
		t.Logf("%s: %d series, at most %d", name, n, want)
		if n == 0 || n > want {
			t.Errorf("%s: %d series, want 1 to %d", name, n, want)
		}
	}
	t.Logf("%d series, %d of them weir_", series, ours)
	if most := 4000; ours > most {
		t.Errorf("%d series, want at most %d", ours, most)
	}
	wantValue(t, got, million-most, "weir_series_overflow_total", "descriptor")
	if v := value(got, "weir_series_overflow_total", "policy"); v < 2*(policies-most) {
		t.Errorf("weir_series_overflow_total of policies = %v", v)
	}
	wantValue(t, got, million, "weir_decisions_total", "gateway", "admitted", "api")
	if v := value(got, "weir_ratelimit_hits_total", "other", "other", "over_limit"); v != million-most {
		t.Errorf("hits under other = %v, want %d", v, million-most)
	}
}

// TestBadLabels checks that labels are valid UTF-8 for any bytes; client_golang panics
// otherwise.
func TestBadLabels(t *testing.T) {
	m := metrics.New(metrics.Config{Version: "\xff"})
	for _, s := range []string{"", "\xff\xfe", "a\nb", `a"b\`, strings.Repeat("é", 1000), strings.Repeat("\xc3", 1000), "x\x00y"} {
		m.Descriptor(s, s, metrics.TotalHits, 1)
		m.Command(s, s)
		m.Reloaded(s, nil, nil)
		m.Observe(s, enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Outcome(strings.ToValidUTF8(s, ""))})
	}
	for name, f := range scrape(t, m) {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if !utf8.ValidString(l.GetValue()) {
					t.Errorf("%s{%s=%q}", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

func FuzzDescriptor(f *testing.F) {
	f.Add("checkout", "tenant_acme", "over_limit", uint64(1))
	f.Add("\xff", strings.Repeat("é", 100), "", uint64(1)<<63)
	m := metrics.New(metrics.Config{MaxSeries: 10})
	f.Fuzz(func(t *testing.T, domain, path, result string, hits uint64) {
		m.Descriptor(domain, path, result, hits)
		m.Command(path, result)
		if _, err := m.Gatherer().Gather(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTogether checks concurrent use, with reloads.
func TestTogether(t *testing.T) {
	m := metrics.New(metrics.Config{MaxSeries: 8})
	const each, callers = 2000, 8
	a := newPolicy(t, "a", policy.Enforce)
	set := newSet(t, a)
	m.Observe("gateway", enforce.Event{Policy: a, Outcome: enforce.Admitted}) // "a" has its place
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				m.Observe("gateway", enforce.Event{Policy: a, Outcome: enforce.Admitted})
				m.Descriptor("d", fmt.Sprint(i%20), metrics.TotalHits, 1)
				if i%500 == 0 && c == 0 {
					m.Reloaded(fmt.Sprint(i), set, nil)
					scrape(t, m)
				}
			}
		})
	}
	all.Wait()
	got := scrape(t, m)
	wantValue(t, got, each*callers+1, "weir_decisions_total", "gateway", "admitted", "a")
	var hits float64
	for _, metric := range got["weir_ratelimit_hits_total"].GetMetric() {
		hits += metric.GetCounter().GetValue()
	}
	if hits != each*callers {
		t.Errorf("%v hits, want %d", hits, each*callers)
	}
}
