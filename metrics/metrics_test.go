package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/metrics"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/storetest"
)

// A recorder is a Backend that keeps values by name and labels.
type recorder struct {
	mu     sync.Mutex
	series map[string]*series
	polls  []func()
	keeps  bool // series that are forgotten
}

type series struct {
	mu     sync.Mutex
	value  float64
	labels []string
}

func (s *series) Add(n float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value += n
}

func (s *series) Observe(float64) { s.Add(1) }

func (r *recorder) of(name string, labels, values []string) *series {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := name
	var pairs []string
	for i, l := range labels {
		pairs = append(pairs, l+"="+values[i])
		id += " " + values[i]
	}
	if r.series == nil {
		r.series = map[string]*series{}
	}
	if r.series[id] == nil {
		r.series[id] = &series{labels: pairs}
	}
	return r.series[id]
}

func (r *recorder) Counter(name, _ string, labels ...string) func(...string) metrics.Counter {
	return func(values ...string) metrics.Counter { return r.of(name, labels, values) }
}

func (r *recorder) Histogram(name, _ string, _ []float64, labels ...string) func(...string) metrics.Histogram {
	return func(values ...string) metrics.Histogram { return r.of(name, labels, values) }
}

func (r *recorder) Poll(all []metrics.Polled, read func(func(int, float64, ...string))) {
	r.polls = append(r.polls, func() {
		read(func(i int, value float64, values ...string) { r.of(all[i].Name, all[i].Labels, values).value = value })
	})
}

func (r *recorder) Forget(label, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.series {
		if !r.keeps && strings.Contains(" "+strings.Join(s.labels, " ")+" ", " "+label+"="+value+" ") {
			delete(r.series, id)
		}
	}
	return !r.keeps
}

// want compares the values of series, by name and values of labels; -1 means that there is none.
func (r *recorder) want(t *testing.T, want map[string]float64) {
	t.Helper()
	for _, poll := range r.polls {
		poll()
	}
	for id, value := range want {
		got := -1.0
		if s := r.series[id]; s != nil {
			got = s.value
		}
		if got != value {
			t.Errorf("%s = %v, want %v", id, got, value)
		}
	}
}

func newPolicy(tb testing.TB, name string) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{Name: name, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")}})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// decided is a store that returns d and err.
type decided struct {
	d   weir.Decision
	err error
}

func (s decided) Do(context.Context, weir.Request) (weir.Decision, error) { return s.d, s.err }

func (s decided) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return s.d.OK, s.err
}

// TestLimiter checks that each decision of a limiter counts once, by outcome, and that other verbs
// and invalid requests do not count.
func TestLimiter(t *testing.T) {
	r := &recorder{}
	m := metrics.New(r, metrics.Config{})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx context.Context
		decided
		verb weir.Verb
	}{
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.Take},
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.TakeUpTo},
		{t.Context(), decided{weir.Decision{OK: true, Degraded: policy.Local}, nil}, weir.Reserve},
		{t.Context(), decided{weir.Decision{}, nil}, weir.Take},
		{t.Context(), decided{weir.Decision{}, weir.ErrUnavailable}, weir.Take},
		{t.Context(), decided{weir.Decision{}, &weir.OverloadError{Reason: "busy"}}, weir.Take},
		{canceled, decided{weir.Decision{}, context.Canceled}, weir.Take},
		{t.Context(), decided{weir.Decision{}, fmt.Errorf("n: %w", weir.ErrInvalid)}, weir.Take},
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.Peek},
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.Return},
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.Charge},
		{t.Context(), decided{weir.Decision{OK: true}, nil}, weir.Commit},
	} {
		d, err := m.Limiter("mail", test.decided).Do(test.ctx, weir.Request{Verb: test.verb})
		if d.OK != test.d.OK || !errors.Is(err, test.err) {
			t.Errorf("%v: %v, %v; want the decision of the store", test.verb, d, err)
		}
	}
	for _, s := range []decided{{}, {weir.Decision{OK: true}, nil}} { // each a batch
		m.Limiter("both", s).DoAll(t.Context(), make([]weir.Request, 2), make([]weir.Decision, 2))
	}
	r.want(t, map[string]float64{
		"weir_decisions_total limiter mail admitted":      3,
		"weir_decisions_total limiter mail denied":        1,
		"weir_decisions_total limiter mail failed_closed": 1,
		"weir_decisions_total limiter mail overloaded":    1,
		"weir_decisions_total limiter mail canceled":      1,
		"weir_degraded_decisions_total mail local":        1,
		"weir_degraded_decisions_total mail closed":       1,
		"weir_decisions_total limiter both admitted":      1,
		"weir_decisions_total limiter both denied":        1,
		"weir_decision_duration_seconds limiter":          9,
	})
}

// TestMissingStore checks that metrics do not hide a missing store from the constructor behind them.
func TestMissingStore(t *testing.T) {
	m := metrics.New(&recorder{}, metrics.Config{})
	for _, store := range []weir.Store{nil, (*memstore.Store)(nil)} {
		for _, got := range []weir.Store{m.Store(store), m.Interface("http", store), m.Limiter("mail", store)} {
			if got != store {
				t.Errorf("got %T of a missing store, want %T", got, store)
			}
		}
	}
}

// TestConformance checks that the store of a limiter keeps the rules of weir.Store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		store, err := memstore.New(memstore.Config{Clock: now.Load})
		if err != nil {
			tb.Fatal(err)
		}
		m := metrics.New(&recorder{}, metrics.Config{})
		return storetest.Harness{Store: m.Limiter("mail", m.Store(store)), SetNow: now.Store, Close: func() { store.Close() }, Monotonic: true}
	})
}

// TestHooks checks the interface that each hook counts for.
func TestHooks(t *testing.T) {
	r := &recorder{}
	m, e := metrics.New(r, metrics.Config{Version: "v1"}), enforce.Event{Policy: newPolicy(t, "api"), Outcome: enforce.Denied}
	m.HTTP(nil, e)
	m.RPC(t.Context(), nil, e)
	m.Function(t.Context(), "api", e)
	for _, o := range []enforce.Outcome{enforce.Unsettled, enforce.Unpriced, enforce.Exhausted, enforce.Settled} {
		m.HTTP(nil, enforce.Event{Policy: e.Policy, Outcome: o}) // not decisions
	}
	m.Failover(func() failover.Stats { return failover.Stats{State: failover.Down} })
	r.want(t, map[string]float64{
		"weir_decisions_total http api denied":     1,
		"weir_decisions_total http api admitted":   0,
		"weir_decisions_total rpc api denied":      1,
		"weir_decisions_total function api denied": 1,
		"weir_unsettled_total api":                 1,
		"weir_budget_exhausted_total api":          1,
		"weir_store_state down":                    1,
		"weir_store_state up":                      0,
		"weir_keys":                                -1, // no memory store
	})
}

// TestSeries checks the bound of series, and that Retain makes room, except of a Backend that
// keeps series.
func TestSeries(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		r := &recorder{keeps: keeps}
		m := metrics.New(r, metrics.Config{MaxSeries: 2})
		observe := func(name string) {
			m.HTTP(nil, enforce.Event{Policy: newPolicy(t, name), Outcome: enforce.Denied})
		}
		for i := range 5 {
			observe(fmt.Sprint("p", i))
			m.Limiter(fmt.Sprint("l", i), decided{}).Do(t.Context(), weir.Request{})
		}
		r.want(t, map[string]float64{
			"weir_decisions_total http p1 denied":       1,
			"weir_decisions_total http p2 denied":       -1,
			"weir_decisions_total http other denied":    3,
			"weir_decisions_total limiter other denied": 3,
			"weir_series_overflow_total policy":         3,
			"weir_series_overflow_total limiter":        3,
		})
		m.Retain(func(name string) bool { return name == "p0" })
		observe("p2")
		want := map[string]float64{
			"weir_decisions_total http p0 denied":    1,
			"weir_decisions_total http p1 denied":    -1,
			"weir_decisions_total http p2 denied":    1,
			"weir_decisions_total limiter l0 denied": 1,
		}
		if keeps {
			want["weir_decisions_total http p1 denied"], want["weir_decisions_total http p2 denied"] = 1, -1
		}
		r.want(t, want)
	}
}
