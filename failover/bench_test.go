package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

// patient is longer than a busy machine takes for anything.
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

func newStore(tb testing.TB, store weir.Store, c failover.Config) *failover.Store {
	tb.Helper()
	s, err := failover.New(store, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func newLocal(tb testing.TB, store weir.Store, nodes int) weir.Store {
	tb.Helper()
	s, err := failover.NewLocal(store, nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkDo is what a decision costs: by a store in memory alone, by way of a Store
// with a deadline, by its share, and while the store is left alone.
func BenchmarkDo(b *testing.B) {
	request := weir.Request{Key: "user:42", Limit: weir.MustLimit("1000000/s"), N: 1}
	away := newStore(b, fake{do: refusing}, failover.Config{Fallback: newLocal(b, newMem(b), 3), Failures: 1, Cooldown: time.Hour})
	for _, bb := range []struct {
		name  string
		store weir.Store
	}{
		{"memstore", newMem(b)},
		{"deadline", newStore(b, newMem(b), failover.Config{Deadline: patient})},
		{"share", newLocal(b, newMem(b), 3)},
		{"away", away},
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
