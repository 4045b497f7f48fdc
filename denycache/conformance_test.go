package denycache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/storetest"
)

// checked compares each repeated denial of a cache with the store below it, where a denied
// request changes nothing, and returns the decision of that store. Calls are serial.
type checked struct {
	mu    sync.Mutex
	cache *denycache.Store
	store weir.Store
}

func (c *checked) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.cache.Stats().Repeated
	d, err := c.cache.Do(ctx, r)
	if c.cache.Stats().Repeated == before {
		return d, err
	}
	want, err := c.store.Do(ctx, r)
	if want.OK || want.RetryAfter != d.RetryAfter || r.N == 1 && d.Debt == 0 && want != d {
		return d, fmt.Errorf("%s: denied as %+v, want %+v, %v", r.Verb, d, want, err)
	}
	return want, err
}

func (c *checked) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.cache.Stats().Repeated
	ok, err := c.cache.DoAll(ctx, rs, ds)
	if c.cache.Stats().Repeated == before {
		return ok, err
	}
	got := ds[0].Combine(ds[1:]...)
	ok, err = c.store.DoAll(ctx, rs, ds)
	if want := ds[0].Combine(ds[1:]...); ok || err != nil || got.OK || got.RetryAfter > want.RetryAfter {
		return ok, fmt.Errorf("batch: denied as %+v, want %+v, %v", got, want, err)
	}
	return ok, err
}

// TestConformance checks that a cache over a memory store decides like that store. The clocks
// of both advance together.
func TestConformance(t *testing.T) {
	var repeated atomic.Int64
	open := func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		now.Store(1)
		mem, err := memstore.New(memstore.Config{Clock: now.Load})
		if err != nil {
			tb.Fatal(err)
		}
		cache := open(tb, mem, denycache.Config{MaxAge: time.Minute, MaxKeys: 1 << 10})
		var latest int64
		cache.SetClock(func() time.Duration { return time.Duration(atomic.LoadInt64(&latest)) * time.Microsecond })
		return storetest.Harness{
			Store: &checked{cache: cache, store: mem}, Monotonic: true,
			SetNow: func(us int64) {
				now.Store(us)
				if first := atomic.LoadInt64(&latest); us > first {
					atomic.StoreInt64(&latest, us)
				}
			},
			Close: func() {
				repeated.Add(cache.Stats().Repeated)
				mem.Close()
			},
		}
	}
	storetest.Run(t, open)
	t.Run("differential", func(t *testing.T) {
		storetest.Differential(t, open, storetest.DiffConfig{Decisions: 100_000})
	})
	if n := repeated.Load(); n < 1000 {
		t.Errorf("%d denials were repeated, want at least 1000", n)
	}
}

func open(tb testing.TB, store weir.Store, c denycache.Config) *denycache.Store {
	tb.Helper()
	cache, err := denycache.New(store, c)
	if err != nil {
		tb.Fatal(err)
	}
	return cache
}

// TestProcesses uses these limits.
var limits = []weir.Limit{
	weir.MustLimit("5/s burst 8"),
	weir.MustLimit("3/10s fixed_window"),
	weir.MustLimit("6/2s sliding_window"),
	weir.MustLimit("4/3s sliding_log"),
	weir.MustLimit("10/s burst 4 leaky_bucket"),
	weir.MustLimit("5/s burst 8").Named("a"),
	weir.MustLimit("2/s burst 3").Named("a"),
	must(weir.TokenBucket{Count: 10, Period: time.Second, Burst: 6, Warmup: 4 * time.Second}),
	must(weir.TokenBucket{Count: 4, Period: time.Second, Interval: true}),
	must(weir.TokenBucket{Count: 2, Period: time.Second, Burst: 6, Initial: new(int64)}),
	must(weir.SlidingWindow{Count: 7, Period: 2 * time.Second, Weighted: true}),
	must(weir.LeakyBucket{Count: 10, Period: time.Second, Burst: 3, Nginx: true, Queue: true}),
}

func must(c weir.LimitConfig) weir.Limit {
	l, err := weir.NewLimit(c)
	if err != nil {
		panic(err)
	}
	return l
}

// TestProcesses has three processes use one store at random, in virtual time. A denial by a
// cache must be one by the store, except for less than MaxAge after another process gave
// tokens back. Without any request of another process, RetryAfter is exact.
func TestProcesses(t *testing.T) {
	const maxAge, steps, processes = time.Second, 3000, 3
	var repeated int64
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		mem, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		var caches [processes]*denycache.Store
		for i := range caches {
			caches[i] = open(t, mem, denycache.Config{MaxAge: maxAge})
			caches[i].SetClock(func() time.Duration { return time.Duration(now) * time.Microsecond })
		}
		// The last time at which each process did so, by key.
		gave, used := map[string][processes]int64{}, map[string][processes]int64{}
		// others returns whether another process did so in the last MaxAge.
		others := func(m map[string][processes]int64, key string, p int) bool {
			for q, at := range m[key] {
				if q != p && at != 0 && now-at < maxAge.Microseconds() {
					return true
				}
			}
			return false
		}
		note := func(key string, p int, at int64, ms ...map[string][processes]int64) {
			for _, m := range ms {
				all := m[key]
				all[p] = max(all[p], at)
				m[key] = all
			}
		}
		ctx := context.Background()
		for step := range steps {
			p := random.IntN(processes)
			r := weir.Request{Key: fmt.Sprint(random.IntN(3)), Limit: limits[random.IntN(len(limits))], N: 1 + random.Int64N(4)}
			for range 1 + random.IntN(4) {
				switch n := random.IntN(40); {
				case n < 5:
					r.Verb = []weir.Verb{weir.Charge, weir.Return, weir.Reset, weir.Reserve, weir.Commit}[n]
					r.ID, r.TTL = fmt.Sprint(random.IntN(3)), time.Second
				case n < 8:
					r.Verb = weir.TakeUpTo
				default:
					r.Verb = weir.Take
				}
				key := r.Key + r.Limit.Spec().State
				d, err := caches[p].Do(ctx, r)
				switch {
				case r.Verb > weir.TakeUpTo:
					note(key, p, now, gave, used)
				case err != nil:
					t.Fatal(err)
				case r.Limit.Name() != "": // it may have changed the limit of the key
					note(key, p, now, gave, used)
				case d.OK:
					note(key, p, now, used)
				}
				if r.Verb <= weir.TakeUpTo && !d.OK {
					ask := r
					ask.Verb = weir.Peek
					if r.Verb == weir.TakeUpTo {
						ask.N = 1
					}
					want, err := mem.Do(ctx, ask)
					if err != nil {
						t.Fatal(err)
					}
					if want.OK && !others(gave, key, p) || want.RetryAfter != d.RetryAfter && !others(used, key, p) {
						t.Fatalf("seed %d, step %d, process %d: %s %d of %s: denied as %+v, want %+v", seed, step, p, r.Verb, r.N, r.Limit, d, want)
					}
					if random.IntN(2) == 0 && d.RetryAfter < 20*time.Second {
						now += max(0, d.RetryAfter.Microseconds()-1+random.Int64N(3))
					}
				}
				if random.IntN(3) == 0 {
					now += random.Int64N(300_000)
				}
			}
		}
		for _, c := range caches {
			repeated += c.Stats().Repeated
		}
		mem.Close()
	}
	if repeated < 500 {
		t.Errorf("%d denials were repeated, want at least 500", repeated)
	}
}
