package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

const (
	ratioRounds    = 5
	ratioDecisions = 20_000 // of each peer in a round
)

// BenchmarkRedisRatio compares the CPU time that Redis takes for one decision of Weir with that for
// one decision of redis_rate. Rounds run both, one after the other. "x-redis_rate" is the median
// of the ratios of the rounds, in decisions per CPU second of Redis; "redis-µs/op" is the
// median for Weir. A batch has two limits of one request, and redis_rate decides one.
func BenchmarkRedisRatio(b *testing.B) {
	server := redistest.Start(b)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MaxRetries: -1, PoolSize: 256})
	defer client.Close()
	store := ratioStore(b, server)
	ctx := context.Background()
	second, hour := weir.MustLimit("1000000/s"), weir.MustLimit("1000000000/h")
	one := func(key string) error {
		_, err := store.Do(ctx, weir.Request{Key: key, Limit: second, N: 1})
		return err
	}
	two := func(key string) error {
		var ds [2]weir.Decision
		_, err := store.DoAll(ctx, []weir.Request{{Key: key, Limit: second, N: 1}, {Key: key, Limit: hour, N: 1}}, ds[:])
		return err
	}
	peer := redis_rate.NewLimiter(client)
	rate := func(key string) error {
		_, err := peer.Allow(ctx, key, redis_rate.PerSecond(1_000_000))
		return err
	}
	for _, c := range []struct {
		name    string
		callers int
		keys    int
		take    func(key string) error
	}{
		{"callers=1", 1, 1000, one},
		{"callers=64", 64, 1000, one},
		{"callers=256", 256, 1000, one},
		{"hot-key/callers=256", 256, 1, one},
		{"two-limits/callers=64", 64, 1000, two},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				var ratios, micros []float64
				for range ratioRounds {
					ours := ratioCPU(b, server, c.callers, c.keys, c.take)
					theirs := ratioCPU(b, server, c.callers, c.keys, rate)
					ratios, micros = append(ratios, theirs/ours), append(micros, ours)
				}
				slices.Sort(ratios)
				slices.Sort(micros)
				b.ReportMetric(ratios[ratioRounds/2], "x-redis_rate")
				b.ReportMetric(micros[ratioRounds/2], "redis-µs/op")
			}
		})
	}
}

// BenchmarkRedisOverLimit offers 50,000 requests per second for one key, of which its limit admits
// 100. "calls/admitted" is the number of requests that reach Redis for each admission.
func BenchmarkRedisOverLimit(b *testing.B) {
	const callers, offered = 64, 50_000
	cache, err := denycache.New(ratioStore(b, redistest.Start(b)), denycache.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var asked, admitted atomic.Int64
	r := weir.Request{Key: "hot", Limit: weir.MustLimit("100/s burst 1"), N: 1}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				tick := time.NewTicker(time.Second * callers / offered)
				defer tick.Stop()
				for ctx.Err() == nil {
					<-tick.C
					d, err := cache.Do(context.Background(), r)
					if err != nil {
						panic(err)
					}
					asked.Add(1)
					if d.OK {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		cancel()
	}
	b.ReportMetric(float64(asked.Load()-cache.Stats().Repeated)/float64(admitted.Load()), "calls/admitted")
	b.ReportMetric(float64(asked.Load())/b.Elapsed().Seconds(), "requests/s")
}

func ratioStore(b *testing.B, server *redistest.Server) *redisstore.Store {
	b.Helper()
	conn, err := rueidis.Open("redis://" + server.Addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return store
}

// ratioCPU returns the CPU time of Redis for one decision, in µs.
func ratioCPU(b *testing.B, server *redistest.Server, callers, keys int, take func(key string) error) float64 {
	b.Helper()
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-0042/user-%08d", i)
	}
	if err := take(names[0]); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	before := cpu(b, server)
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= ratioDecisions; i = next.Add(1) {
				if err := take(names[i*7919%int64(keys)]); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
	return (cpu(b, server) - before) * 1e6 / ratioDecisions
}
