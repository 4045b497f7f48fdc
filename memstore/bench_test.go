package memstore_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// A baseline is a simple limiter for comparison: a map and a mutex per shard, and one
// instant per key, in nanoseconds.
type baseline struct {
	seed   maphash.Seed
	start  time.Time
	shards [64]struct {
		sync.Mutex
		tat map[string]int64
	}
}

func newBaseline() *baseline {
	b := &baseline{seed: maphash.MakeSeed(), start: time.Now()}
	for i := range b.shards {
		b.shards[i].tat = map[string]int64{}
	}
	return b
}

func (b *baseline) take(key string, interval, burst int64) bool {
	now := int64(time.Since(b.start))
	sh := &b.shards[maphash.String(b.seed, key)%64]
	sh.Lock()
	defer sh.Unlock()
	tat := max(sh.tat[key], now) + interval
	if tat-now > burst*interval {
		return false
	}
	sh.tat[key] = tat
	return true
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-0042/user-%08d", i)
	}
	return keys
}

// BenchmarkTake decides one token, first under a token bucket and then under other
// limits. Its keys are one hot key, 100,000 keys drawn evenly, and a million keys of
// which few are drawn often (Zipf, s = 1.1). Then 100,000 keys are all denied, and
// 100,000 keys are as if never used each time.
func BenchmarkTake(b *testing.B) {
	million := keysOf(1_000_000)
	const allowed, denied = "1000000000/10000h", "1/24h"
	for _, load := range []struct {
		name, limit string
		keys        []string
		zipf        bool
	}{
		{"hot", allowed, million[:1], false},
		{"hot-denied", denied, million[:1], false},
		{"100k", allowed, million[:100_000], false},
		{"100k-denied", denied, million[:100_000], false},
		{"100k-fleeting", "1000000/s", million[:100_000], false},
		{"1M-zipf", allowed, million, true},
		{"hot-fixed", "1000000000/s fixed_window", million[:1], false},
		{"100k-fixed", "1000000000/s fixed_window", million[:100_000], false},
		{"100k-sliding", "1000000000/s sliding_window", million[:100_000], false},
	} {
		limit, err := weir.ParseLimit(load.limit)
		if err != nil {
			b.Fatal(err)
		}
		draws := make([]uint32, 1<<20)
		r := rand.New(rand.NewPCG(1, 2))
		z := rand.NewZipf(r, 1.1, 1, uint64(len(load.keys)-1))
		for i := range draws {
			draws[i] = uint32(r.IntN(len(load.keys)))
			if load.zipf {
				draws[i] = uint32(z.Uint64())
			}
		}
		run := func(name string, take func(key string)) {
			for _, k := range load.keys {
				take(k)
			}
			b.Run(load.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					take(load.keys[draws[i&(1<<20-1)]])
					i++
				}
			})
			b.Run(load.name+"/"+name+"/parallel", func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for i := rand.IntN(1 << 20); pb.Next(); i++ {
						take(load.keys[draws[i&(1<<20-1)]])
					}
				})
			})
		}
		ctx := context.Background()
		s, err := memstore.New(memstore.Config{})
		if err != nil {
			b.Fatal(err)
		}
		run("weir", func(key string) {
			if _, err := s.Do(ctx, weir.Request{Key: key, Limit: limit, N: 1}); err != nil {
				b.Fatal(err)
			}
		})
		m := newBaseline()
		interval, burst := int64(36_000), int64(1_000_000_000)
		switch load.name {
		case "hot-denied", "100k-denied":
			interval, burst = int64(24*time.Hour), 1
		case "100k-fleeting":
			interval, burst = 1000, 1_000_000
		}
		run("map+mutex", func(key string) { m.take(key, interval, burst) })
		s.Close()
	}
}

// BenchmarkNewKey measures the decision for a key without a state.
func BenchmarkNewKey(b *testing.B) {
	keys := keysOf(1 << 20)
	limit := weir.MustLimit("1/24h")
	s, _ := memstore.New(memstore.Config{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == len(keys) {
			b.StopTimer()
			s, _ = memstore.New(memstore.Config{})
			i = 0
			b.StartTimer()
		}
		s.Do(context.Background(), weir.Request{Key: keys[i], Limit: limit, N: 1})
		i++
	}
}

// BenchmarkDoAll decides one request of so many limits and keys together.
func BenchmarkDoAll(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := memstore.New(memstore.Config{})
			limit := weir.MustLimit("1000000000/10000h")
			rs := make([]weir.Request, n)
			for i, k := range keysOf(n) {
				rs[i] = weir.Request{Key: k, Limit: limit, N: 1}
			}
			ds := make([]weir.Decision, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.DoAll(context.Background(), rs, ds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
