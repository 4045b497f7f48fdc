package guard_test

import (
	"context"
	"testing"

	"github.com/floodweir/weir/guard"
)

// TestAllocations is the budget of a call under one limit: its entry, which Func has on the stack,
// and its key, unless the call before had it. A slot costs as much.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []string{"1000000/s", "1000000/s fixed_window", "1000 concurrency"} {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits(limit)})
		f := guard.Func(g, func(context.Context, string) (int, error) { return 1, nil }, guard.FuncOptions[string, int]{Key: func(s string) string { return s }})
		enter := func(e *guard.Entry, err error) {
			if err != nil {
				t.Fatal(err)
			}
			e.Exit(nil)
		}
		for _, key := range []string{"", "user-4711"} {
			for _, tt := range []struct {
				name string
				call func()
				most float64
			}{
				{"Enter", func() { enter(g.Enter(ctx, key)) }, 1},
				{"EnterFunc", func() { enter(g.EnterFunc(ctx, 1, func() string { return key })) }, 1},
				{"Func", func() {
					if n, err := f(ctx, key); n != 1 || err != nil {
						t.Fatal(n, err)
					}
				}, 0},
			} {
				if got := testing.AllocsPerRun(1000, tt.call); got > tt.most && !racing {
					t.Errorf("%s: %s for %q allocates %v times, want at most %v", limit, tt.name, key, got, tt.most)
				}
			}
		}
	}
}

func BenchmarkEnter(b *testing.B) {
	for _, bc := range []struct{ name, limit, key string }{
		{"constant", "1000000/s burst 1000000000", ""},
		{"key", "1000000/s burst 1000000000", "user-4711"},
		{"window", "1000000000/s fixed_window", "user-4711"},
		{"denied", "1/24h", "user-4711"},
		{"slot", "1000 concurrency", ""},
	} {
		g := registry(b, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits(bc.limit)})
		ctx := context.Background()
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, _ := g.Enter(ctx, bc.key)
				e.Exit(nil)
			}
		})
		b.Run(bc.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					e, _ := g.Enter(ctx, bc.key)
					e.Exit(nil)
				}
			})
		})
	}
	b.Run("resource", func(b *testing.B) {
		r := registry(b, guard.Config{})
		b.ReportAllocs()
		for b.Loop() {
			e, _ := r.Enter(context.Background(), "resource", "")
			e.Exit(nil)
		}
	})
	b.Run("func", func(b *testing.B) {
		g := registry(b, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1000000/s burst 1000000000")})
		f := guard.Func(g, func(context.Context, string) (int, error) { return 1, nil }, guard.FuncOptions[string, int]{Key: func(s string) string { return s }})
		b.ReportAllocs()
		for b.Loop() {
			if n, err := f(context.Background(), "user-4711"); n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}
