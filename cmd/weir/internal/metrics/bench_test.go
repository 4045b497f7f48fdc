package metrics_test

import (
	"context"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func event(tb testing.TB) enforce.Event {
	return enforce.Event{Policy: newPolicy(tb, "api", policy.Enforce), Key: "api|11:203.0.113.7", Outcome: enforce.Denied}
}

// TestAllocations checks that counting a request allocates nothing.
func TestAllocations(t *testing.T) {
	m, e := metrics.New(metrics.Config{}), event(t)
	store := m.Interface("gateway", m.Store(decided{}))
	for name, f := range map[string]func(){
		"Observe":    func() { m.Observe("gateway", e) },
		"Descriptor": func() { m.Descriptor("checkout", "tenant_acme", metrics.OverLimit, 1) },
		"Command":    func() { m.Command("cl.throttle", metrics.CommandOK) },
		"Do":         func() { store.Do(context.Background(), weir.Request{}) },
	} {
		f() // the first one makes the series
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

// decided is a store that returns at once.
type decided struct{}

func (decided) Do(context.Context, weir.Request) (weir.Decision, error) { return weir.Decision{}, nil }

func (decided) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return true, nil
}

func BenchmarkObserve(b *testing.B) {
	m, e := metrics.New(metrics.Config{}), event(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Observe("gateway", e)
		}
	})
}

func BenchmarkObserveSerial(b *testing.B) {
	m, e := metrics.New(metrics.Config{}), event(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Observe("gateway", e)
	}
}

func BenchmarkDescriptor(b *testing.B) {
	m := metrics.New(metrics.Config{})
	b.ReportAllocs()
	for b.Loop() {
		m.Descriptor("checkout", "tenant_acme", metrics.OverLimit, 1)
	}
}

// BenchmarkStore measures the cost of a Store with metrics, as the difference between its
// cases.
func BenchmarkStore(b *testing.B) {
	m := metrics.New(metrics.Config{})
	memory, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	limit := weir.MustLimit("1000000/s")
	for _, s := range []struct {
		name  string
		store weir.Store
	}{
		{"nothing", decided{}}, {"nothing-counted", m.Store(decided{})},
		{"memory", memory}, {"memory-counted", m.Store(memory)}, {"memory-counted-twice", m.Interface("http", m.Store(memory))},
	} {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.store.Do(context.Background(), weir.Request{Key: "k", Limit: limit, N: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
