package benchmarks

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"testing"
	"time"

	sentinel "github.com/alibaba/sentinel-golang/api"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	juju "github.com/juju/ratelimit"
	golimiter "github.com/sethvargo/go-limiter"
	golimitermem "github.com/sethvargo/go-limiter/memorystore"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

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
	{"uber", func(testing.TB, bool) func() bool {
		l := uber.New(1_000_000_000)
		return func() bool { l.Take(); return true }
	}},
	{"juju", func(_ testing.TB, denied bool) func() bool {
		l := juju.NewBucketWithRate(1e9, 1<<40)
		if denied {
			l = juju.NewBucket(24*time.Hour, 1)
		}
		return func() bool { return l.TakeAvailable(1) > 0 }
	}},
	{"sentinel", func(t testing.TB, denied bool) func() bool {
		startSentinel(t)
		if err := sentinelFlow(denied); err != nil {
			t.Fatal(err)
		}
		return func() bool {
			e, blocked := sentinel.Entry("flow")
			if blocked != nil {
				return false
			}
			e.Exit()
			return true
		}
	}},
}

// localKeyedPeers are keyedPeers without their results, and the floor.
var localKeyedPeers = append([]peer{
	{"floor", func(_ testing.TB, perSecond int) func(string) bool {
		f := newFloorTable(1 << 20)
		interval := int64(time.Second) / int64(perSecond)
		return func(key string) bool { return f.take(key, interval, int64(time.Second)) }
	}},
	{"weir/AllowKey", func(b testing.TB, perSecond int) func(string) bool {
		return keyedLimiter(b, perSecond).AllowKey
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
