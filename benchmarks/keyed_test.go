package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	golimitermem "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/floodweir/weir"
	weirmem "github.com/floodweir/weir/memstore"
)

// A peer decides one token of a key.
type peer struct {
	name string
	open func(b testing.TB, perSecond int) func(key string) bool
}

// keyedLimiter returns a limiter with room for the keys of every load.
func keyedLimiter(t testing.TB, perSecond int) *weir.Limiter {
	t.Helper()
	store, err := weirmem.New(weirmem.Config{MaxKeys: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, weir.MustLimit(fmt.Sprintf("%d/s", perSecond)), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

var keyedPeers = []peer{
	{"weir", func(b testing.TB, perSecond int) func(string) bool {
		lim, ctx := keyedLimiter(b, perSecond), context.Background()
		return func(key string) bool {
			d, err := lim.Take(ctx, key, 1)
			if err != nil {
				panic(err)
			}
			return d.OK
		}
	}},
	{"x-time-rate-in-a-map", func(_ testing.TB, perSecond int) func(string) bool {
		var mu sync.Mutex
		limiters := map[string]*rate.Limiter{}
		return func(key string) bool {
			mu.Lock()
			l := limiters[key]
			if l == nil {
				l = rate.NewLimiter(rate.Limit(perSecond), perSecond)
				limiters[key] = l
			}
			mu.Unlock()
			return l.Allow()
		}
	}},
	{"go-limiter", func(b testing.TB, perSecond int) func(string) bool {
		var store golimiter.Store
		store, err := golimitermem.New(&golimitermem.Config{Tokens: uint64(perSecond), Interval: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		b.Cleanup(func() { store.Close(ctx) })
		return func(key string) bool {
			_, _, _, ok, err := store.Take(ctx, key)
			if err != nil {
				panic(err)
			}
			return ok
		}
	}},
	{"throttled", func(b testing.TB, perSecond int) func(string) bool {
		store, err := memstore.NewCtx(4 << 20)
		if err != nil {
			b.Fatal(err)
		}
		lim, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond - 1})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		return func(key string) bool {
			// Under contention on one key it gives up with an error after ten
			// attempts; that counts as a decision here.
			limited, _, err := lim.RateLimitCtx(ctx, key, 1)
			return !limited && err == nil
		}
	}},
}

// BenchmarkKeyed measures decisions in this process: one hot key, 100,000 keys, and keys that
// are all denied.
func BenchmarkKeyed(b *testing.B) {
	keys := names(100_000)
	for _, load := range []struct {
		name      string
		perSecond int
		keys      []string
	}{
		{"hot", 1_000_000, keys[:1]},
		{"100k", 1_000_000, keys},
		{"100k-denied", 1, keys},
	} {
		for _, p := range keyedPeers {
			b.Run(load.name+"/"+p.name, func(b *testing.B) {
				take := p.open(b, load.perSecond)
				for _, k := range load.keys { // create every key; it is empty if the limit denies
					take(k)
				}
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					r := rand.New(rand.NewPCG(1, rand.Uint64()))
					for pb.Next() {
						take(load.keys[r.IntN(len(load.keys))])
					}
				})
			})
		}
	}
}
