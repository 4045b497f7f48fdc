package benchmarks

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	golimiter "github.com/sethvargo/go-limiter"
	golimitermem "github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"github.com/floodweir/weir"
	weirmem "github.com/floodweir/weir/memstore"
)

// A casBucket is the least that an exact limiter does: one clock read and one compare-and-swap of
// the instant at which the bucket is full, in ns. The word of a key in a floorTable is one too.
type casBucket struct{ tat atomic.Int64 }

var processStart = time.Now()

func (c *casBucket) take(now, interval, span int64) bool {
	for {
		old := c.tat.Load()
		tat := max(old, now) + interval
		if tat-now > span {
			return false
		}
		if c.tat.CompareAndSwap(old, tat) {
			return true
		}
	}
}

// A floorTable is the least that a keyed limiter does: a hash, a probe in an open table of a fixed
// size without pointers, and a casBucket. It does not grow, and forgets no key.
type floorTable struct {
	seed    maphash.Seed
	entries []struct {
		hash atomic.Uint64
		casBucket
	}
}

func newFloorTable(keys int) *floorTable {
	f := &floorTable{seed: maphash.MakeSeed()}
	size := 8
	for size*3 < keys*4 {
		size *= 2
	}
	f.entries = make([]struct {
		hash atomic.Uint64
		casBucket
	}, size)
	return f
}

func (f *floorTable) take(key string, interval, span int64) bool {
	now := int64(time.Since(processStart))
	hash := max(1, maphash.String(f.seed, key))
	mask := uint64(len(f.entries) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := &f.entries[i]
		switch e.hash.Load() {
		case hash:
		case 0:
			if !e.hash.CompareAndSwap(0, hash) && e.hash.Load() != hash {
				continue
			}
		default:
			continue
		}
		return e.take(now, interval, span)
	}
}

// A localPeer has one limiter without keys. denied limits deny everything after the first token.
type localPeer struct {
	name string
	open func(b testing.TB, denied bool) func() bool
}

var localPeers = []localPeer{
	{"floor", func(_ testing.TB, denied bool) func() bool {
		interval, span := int64(100), int64(time.Hour)
		if denied {
			interval, span = int64(24*time.Hour), int64(24*time.Hour)
		}
		c := &casBucket{}
		return func() bool { return c.take(int64(time.Since(processStart)), interval, span) }
	}},
	{"weir", func(_ testing.TB, denied bool) func() bool {
		return weirmem.MustLimiter(rateLimit(denied)).Allow
	}},
	{"weir/Take", func(b testing.TB, denied bool) func() bool {
		lim, ctx := weirmem.MustLimiter(rateLimit(denied)), context.Background()
		return func() bool {
			d, err := lim.Take(ctx, "*", 1)
			if err != nil {
				b.Fatal(err)
			}
			return d.OK
		}
	}},
	{"x-time-rate", func(_ testing.TB, denied bool) func() bool {
		if denied {
			return rate.NewLimiter(rate.Every(24*time.Hour), 1).Allow
		}
		return rate.NewLimiter(1e7, 1e9).Allow
	}},
	{"failsafe-smooth", func(_ testing.TB, denied bool) func() bool {
		if denied {
			return ratelimiter.NewSmooth[any](1, 24*time.Hour).TryAcquirePermit
		}
		return ratelimiter.NewSmooth[any](1e9, time.Second).TryAcquirePermit
	}},
	{"failsafe-bursty", func(_ testing.TB, denied bool) func() bool {
		if denied {
			return ratelimiter.NewBursty[any](1, 24*time.Hour).TryAcquirePermit
		}
		return ratelimiter.NewBursty[any](4e9, time.Second).TryAcquirePermit
	}},
}

// BenchmarkLocal measures one limiter without keys in this process. The row floor is a bare
// compare-and-swap; the ratio to it within one run is the figure to compare.
func BenchmarkLocal(b *testing.B) {
	for _, answer := range []string{"allowed", "denied"} {
		for _, p := range localPeers {
			b.Run(answer+"/1/"+p.name, func(b *testing.B) {
				allow := p.open(b, answer == "denied")
				allow()
				b.ReportAllocs()
				for b.Loop() {
					allow()
				}
			})
		}
		for _, p := range localPeers {
			b.Run(answer+"/parallel/"+p.name, func(b *testing.B) {
				allow := p.open(b, answer == "denied")
				allow()
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						allow()
					}
				})
			})
		}
	}
}

// localKeyedPeers are keyedPeers without their results, and the floor.
var localKeyedPeers = append([]peer{
	{"floor", func(_ testing.TB, perSecond int) func(string) bool {
		f := newFloorTable(1 << 20)
		interval := int64(time.Second) / int64(perSecond)
		return func(key string) bool { return f.take(key, interval, int64(time.Second)) }
	}},
	{"weir/AllowKey", func(b testing.TB, perSecond int) func(string) bool {
		store, err := weirmem.New(weirmem.Config{MaxKeys: 4 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close() })
		lim, err := weir.New(store, weir.MustLimit(fmt.Sprintf("%d/s", perSecond)), weir.Config{})
		if err != nil {
			b.Fatal(err)
		}
		return lim.AllowKey
	}},
	{"go-limiter-1h", func(b testing.TB, perSecond int) func(string) bool {
		store, err := golimitermem.New(&golimitermem.Config{Tokens: uint64(perSecond) * 3600, Interval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		b.Cleanup(func() { store.Close(ctx) })
		var s golimiter.Store = store
		return func(key string) bool {
			_, _, _, ok, err := s.Take(ctx, key)
			return ok && err == nil
		}
	}},
}, keyedPeers...)

// BenchmarkLocalKeyed measures decisions about keys on one goroutine: 100,000 keys drawn evenly,
// and a million of which few are drawn often (Zipf, s = 1.1).
func BenchmarkLocalKeyed(b *testing.B) {
	keys := make([]string, 1_000_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-0042/user-%08d", i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, uint64(len(keys)-1))
	draws := make([]uint32, 1<<20)
	for _, load := range []string{"hot", "100k", "1M-zipf"} {
		n := len(keys)
		for i := range draws {
			switch load {
			case "hot":
				n, draws[i] = 1, 0
			case "100k":
				n, draws[i] = 100_000, uint32(r.IntN(100_000))
			default:
				draws[i] = uint32(z.Uint64())
			}
		}
		for _, p := range localKeyedPeers {
			b.Run(load+"/"+p.name, func(b *testing.B) {
				take := p.open(b, 1_000_000)
				for _, k := range keys[:n] {
					take(k)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					take(keys[draws[i&(1<<20-1)]])
					i++
				}
			})
		}
	}
}
