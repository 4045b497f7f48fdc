//go:build !race

package share_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
)

// hot returns a store with a share of a limit that is never reached.
func hot(tb testing.TB, text string) (*share.Store, weir.Request) {
	tb.Helper()
	s := newStore(tb, share.NewMemory(nil), share.Config{Interval: 10 * time.Millisecond, Lease: time.Hour})
	r := weir.Request{Key: "hot", Limit: weir.MustLimit(text), N: 1}
	for s.Stats().Local == 0 { // until there is a share
		for range 100 {
			if _, err := s.Do(tb.Context(), r); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return s, r
}

const huge = "1000000000/s burst 1000000000"

func TestLocalAllocations(t *testing.T) {
	s, r := hot(t, huge)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if d, err := s.Do(ctx, r); err != nil || !d.OK {
			t.Errorf("decision = %+v, %v", d, err)
		}
	}); n != 0 {
		t.Errorf("a decision by a share allocates %v times, want 0", n)
	}
}

// BenchmarkDo compares a decision by a share with one of the memory store.
func BenchmarkDo(b *testing.B) {
	for _, limit := range []string{huge, "1000000000/s sliding_window"} {
		b.Run(limit+"/share", func(b *testing.B) {
			s, r := hot(b, limit)
			bench(b, s, r)
		})
		b.Run(limit+"/memory", func(b *testing.B) {
			s, err := memstore.New(memstore.Config{})
			if err != nil {
				b.Fatal(err)
			}
			bench(b, s, weir.Request{Key: "hot", Limit: weir.MustLimit(limit), N: 1})
		})
	}
}

func bench(b *testing.B, s weir.Store, r weir.Request) {
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		for b.Loop() {
			if _, err := s.Do(ctx, r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Do(ctx, r); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
