package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

// patient is a deadline that a busy machine does not reach.
const patient = 20 * time.Second

func newMem(tb testing.TB) *memstore.Store {
	tb.Helper()
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// tested is a Store that may have a fallback.
type tested struct {
	*failover.Store
	asked weir.Store
}

func (s *tested) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	return s.asked.Do(ctx, r)
}

func (s *tested) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	return s.asked.DoAll(ctx, rs, ds)
}

func newStore(tb testing.TB, store weir.Store, c failover.Config, fallback ...weir.Store) *tested {
	tb.Helper()
	s, err := failover.New(store, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	if len(fallback) == 0 {
		return &tested{s, s}
	}
	return &tested{s, failover.WithFallback(s, fallback[0])}
}

func newLocal(tb testing.TB, store weir.Store, nodes int) weir.Store {
	tb.Helper()
	s, err := failover.NewLocal(store, nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkDo measures a decision by a store in memory, by a Store with a deadline, by a
// share, and while the breaker is open.
func BenchmarkDo(b *testing.B) {
	request := weir.Request{Key: "user:42", Limit: weir.MustLimit("1000000/s"), N: 1}
	open := newStore(b, fake{do: refusing}, failover.Config{Deadline: time.Minute}, newLocal(b, newMem(b), 3))
	for !open.Open() {
		open.Do(b.Context(), request)
	}
	for _, bb := range []struct {
		name  string
		store weir.Store
	}{
		{"memstore", newMem(b)},
		{"deadline", newStore(b, newMem(b), failover.Config{Deadline: patient})},
		{"share", newLocal(b, newMem(b), 3)},
		{"open", open},
	} {
		ask := func(b *testing.B, ctx context.Context) {
			if _, err := bb.store.Do(ctx, request); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(bb.name+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, context.Background())
			}
		})
		b.Run(bb.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				for pb.Next() {
					ask(b, ctx)
				}
			})
		})
	}
}
