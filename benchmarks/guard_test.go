package benchmarks

import (
	"context"
	"testing"
	"time"

	sentinel "github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/isolation"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	weirmem "github.com/floodweir/weir/memstore"
)

// A call is a function behind a guard. Its error is the denial.
type call func(ctx context.Context, n int) (int, error)

// work is the bare function. The cost of a guard is the difference from it.
//
//go:noinline
func work(_ context.Context, n int) (int, error) { return n + 1, nil }

// A guardPeer guards work. With denied, it admits no further call.
type guardPeer struct {
	name string
	open func(b testing.TB, denied bool) call
}

var guardPeers = []guardPeer{
	{"weir/Func", func(b testing.TB, denied bool) call {
		return guard.Func(weirGuard(b, rateLimit(denied)), work, guard.FuncOptions[int, int]{})
	}},
	{"weir/Enter-Exit", func(b testing.TB, denied bool) call {
		g := weirGuard(b, rateLimit(denied))
		return func(ctx context.Context, n int) (int, error) {
			e, err := g.Enter(ctx, "")
			if err != nil {
				return 0, err
			}
			n, err = work(ctx, n)
			e.Exit(err)
			return n, err
		}
	}},
	// The code that weir generate writes and weir go weaves in.
	{"weir/directive", func(b testing.TB, denied bool) call {
		g := weirGuard(b, rateLimit(denied))
		return func(ctx context.Context, n int) (r int, err error) {
			e, err := g.Enter(ctx, "")
			if err != nil {
				return 0, err
			}
			defer e.Done(&err)
			return work(ctx, n)
		}
	}},
	// The name is looked up at each call, as with Sentinel's Entry.
	{"weir/by-name", func(b testing.TB, denied bool) call {
		r := weirRegistry(b)
		guardOf(b, r, rateLimit(denied))
		return func(ctx context.Context, n int) (int, error) {
			e, err := r.Enter(ctx, "work", "")
			if err != nil {
				return 0, err
			}
			n, err = work(ctx, n)
			e.Exit(err)
			return n, err
		}
	}},
	{"weir/concurrency", func(b testing.TB, denied bool) call {
		limit := "10000 concurrency"
		if denied {
			limit = "1 concurrency"
		}
		g := weirGuard(b, limit)
		if denied {
			e, err := g.Enter(context.Background(), "")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { e.Exit(nil) })
		}
		return guard.Func(g, work, guard.FuncOptions[int, int]{})
	}},
	{"failsafe/ratelimiter", func(_ testing.TB, denied bool) call {
		l := ratelimiter.NewBursty[int](4_000_000_000, time.Second)
		if denied {
			l = ratelimiter.NewBursty[int](1, 24*time.Hour)
		}
		return failsafeCall(failsafe.With[int](l))
	}},
	{"failsafe/bulkhead", func(_ testing.TB, denied bool) call {
		most := uint(10_000)
		if denied {
			most = 1
		}
		h := bulkhead.New[int](most)
		if denied {
			h.TryAcquirePermit()
		}
		return failsafeCall(failsafe.With[int](h))
	}},
	{"sentinel/flow", func(b testing.TB, denied bool) call {
		if err := sentinelFlow(denied); err != nil {
			b.Fatal(err)
		}
		return sentinelCall("flow")
	}},
	{"sentinel/concurrency", func(b testing.TB, denied bool) call {
		threshold := uint32(10_000)
		if denied {
			threshold = 1
		}
		_, err := isolation.LoadRules([]*isolation.Rule{{Resource: "isolation", MetricType: isolation.Concurrency, Threshold: threshold}})
		if err != nil {
			b.Fatal(err)
		}
		if denied {
			e, blocked := sentinel.Entry("isolation")
			if blocked != nil {
				b.Fatal(blocked)
			}
			b.Cleanup(func() { e.Exit() })
		}
		return sentinelCall("isolation")
	}},
}

// BenchmarkGuard measures a guarded call of one key in this process; the row bare is the call
// without a guard. Weir counts calls and their time in every row, as Sentinel does; failsafe
// does not.
func BenchmarkGuard(b *testing.B) {
	startSentinel(b)
	for _, answer := range []string{"allowed", "denied"} {
		peers := guardPeers
		if answer == "allowed" {
			peers = append([]guardPeer{{"bare", func(testing.TB, bool) call { return work }}}, peers...)
		}
		for _, p := range peers {
			b.Run(answer+"/serial/"+p.name, func(b *testing.B) {
				f := openGuard(b, p, answer == "denied")
				ctx, n := context.Background(), 0
				b.ReportAllocs()
				for b.Loop() {
					n, _ = f(ctx, n)
				}
			})
		}
		for _, p := range peers {
			b.Run(answer+"/parallel/"+p.name, func(b *testing.B) {
				f := openGuard(b, p, answer == "denied")
				ctx := context.Background()
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for n := 0; pb.Next(); {
						n, _ = f(ctx, n)
					}
				})
			})
		}
	}
}

// openGuard returns the peer's function after checking its result.
func openGuard(b testing.TB, p guardPeer, denied bool) call {
	f := p.open(b, denied)
	ctx := context.Background()
	_, _ = f(ctx, 0) // the one token of a rate that denies
	for range 3 {
		n, err := f(ctx, 1)
		if denied != (err != nil) || !denied && n != 2 {
			b.Fatalf("%s = %d, %v; want denied %v", p.name, n, err, denied)
		}
	}
	return f
}

func rateLimit(denied bool) string {
	if denied {
		return "1/24h"
	}
	return "10000000/s burst 1000000000"
}

func weirRegistry(b testing.TB) *guard.Registry {
	store, err := weirmem.New(weirmem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	r, err := guard.NewRegistry(guard.Config{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func guardOf(b testing.TB, r *guard.Registry, limit string) *guard.Guard {
	g, err := r.Guard(guard.Resource{Name: "work", Limits: []weir.Limit{weir.MustLimit(limit)}})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func weirGuard(b testing.TB, limit string) *guard.Guard { return guardOf(b, weirRegistry(b), limit) }

func failsafeCall(e failsafe.Executor[int]) call {
	return func(ctx context.Context, n int) (int, error) {
		return e.Get(func() (int, error) { return work(ctx, n) })
	}
}

// startSentinel starts Sentinel with its defaults. Its files are removed after the benchmark,
// and its background work, which other rows would pay for, is off.
func startSentinel(b testing.TB) {
	c := config.NewDefaultConfig()
	c.Sentinel.App.Name = "benchmarks"
	c.Sentinel.Log.Dir = b.TempDir()
	c.Sentinel.Log.Metric.FlushIntervalSec = 0
	c.Sentinel.Stat.System.CollectIntervalMs = 0
	c.Sentinel.Stat.System.CollectLoadIntervalMs = 0
	c.Sentinel.Stat.System.CollectCpuIntervalMs = 0
	c.Sentinel.Stat.System.CollectMemoryIntervalMs = 0
	if err := sentinel.InitWithConfig(c); err != nil {
		b.Fatal(err)
	}
}

// sentinelFlow loads the rate of the resource flow.
func sentinelFlow(denied bool) error {
	threshold := 1e12
	if denied {
		threshold = 0
	}
	_, err := flow.LoadRules([]*flow.Rule{{Resource: "flow", TokenCalculateStrategy: flow.Direct, ControlBehavior: flow.Reject, Threshold: threshold, StatIntervalInMs: 1000}})
	return err
}

func sentinelCall(resource string) call {
	return func(ctx context.Context, n int) (int, error) {
		e, blocked := sentinel.Entry(resource)
		if blocked != nil {
			return 0, blocked
		}
		n, err := work(ctx, n)
		if err != nil {
			sentinel.TraceError(e, err)
		}
		e.Exit()
		return n, err
	}
}
