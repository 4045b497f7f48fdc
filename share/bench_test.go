//go:build !race

package share_test

import (
	"context"
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

// fixed is a strict store that admits every request.
type fixed struct{ weir.Store }

func (fixed) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{OK: true}, nil
}

func (fixed) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) { return true, nil }

// TestOverAllocations checks that a store over another allocates nothing: by a share, for a key that is
// not divided, and for a limit that is not.
func TestOverAllocations(t *testing.T) {
	s, err := share.New(fixed{}, share.NewMemory(nil), share.Config{
		Interval: 10 * time.Millisecond, Lease: time.Hour,
		Terms: func(key string) (share.Terms, bool) { return share.Terms{}, key != "cold" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := weir.Request{Key: "hot", Limit: weir.MustLimit(huge), N: 1}
	over, ctx := s.Over(s.Calls(), s.Calls()), t.Context()
	for s.Stats().Local == 0 {
		for range 100 {
			if _, err := over.Do(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	cold, small := r, r
	cold.Key, small.Limit = "cold", weir.MustLimit("1/s")
	for _, r := range []weir.Request{r, cold, small} {
		if n := testing.AllocsPerRun(1000, func() {
			if d, err := over.Do(ctx, r); err != nil || !d.OK {
				t.Errorf("decision = %+v, %v", d, err)
			}
		}); n != 0 {
			t.Errorf("a decision about %s under %s allocates %v times, want 0", r.Key, r.Limit, n)
		}
		rs, ds := []weir.Request{r, r}, make([]weir.Decision, 2)
		if n := testing.AllocsPerRun(1000, func() {
			if ok, err := over.DoAll(ctx, rs, ds); err != nil || !ok {
				t.Errorf("decisions = %+v, %v", ds, err)
			}
		}); n != 0 {
			t.Errorf("two decisions about %s under %s allocate %v times, want 0", r.Key, r.Limit, n)
		}
	}
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
