package benchmarks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/floodweir/weir"
	weirgoredis "github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

func overConn(b testing.TB, conn redisstore.Conn) func(string) bool {
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, weir.MustLimit("1000000/s"), weir.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := lim.Take(ctx, key, 1)
		if err != nil {
			panic(err)
		}
		return d.OK
	}
}

// BenchmarkRedis measures shared decisions, one per call, by 1, 16, 64 and 256 callers over
// 1,000 keys on a real Redis. "redis-µs/op" is the CPU time of Redis for one decision. Redis
// runs commands on one core, so its inverse is the capacity of one instance.
func BenchmarkRedis(b *testing.B) {
	keys := names(1000)
	server := redistest.Start(b)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MaxRetries: -1, PoolSize: 256})
	defer client.Close()
	conn, err := rueidis.Open("redis://" + server.Addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	peers := []struct {
		name string
		take func(string) bool
	}{
		{"weir-rueidis", overConn(b, conn)},
		{"weir-goredis", overConn(b, weirgoredis.New(client))},
		{"redis_rate", func() func(string) bool {
			lim := redis_rate.NewLimiter(client)
			ctx := context.Background()
			return func(key string) bool {
				r, err := lim.Allow(ctx, key, redis_rate.PerSecond(1_000_000))
				if err != nil {
					panic(err)
				}
				return r.Allowed == 1
			}
		}()},
	}
	for _, callers := range []int{1, 16, 64, 256} {
		for _, p := range peers {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, p.name), func(b *testing.B) {
				p.take(keys[0])
				var next atomic.Int64
				before := cpu(b, server)
				b.ReportAllocs()
				b.ResetTimer()
				done := make(chan struct{})
				for range callers {
					go func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							p.take(keys[i*7919%int64(len(keys))])
						}
						done <- struct{}{}
					}()
				}
				for range callers {
					<-done
				}
				b.StopTimer()
				b.ReportMetric((cpu(b, server)-before)*1e6/float64(b.N), "redis-µs/op")
			})
		}
	}
}

// cpu returns the CPU time of the server, in seconds.
func cpu(b testing.TB, s *redistest.Server) (sum float64) {
	for line := range strings.Lines(fmt.Sprint(s.Do(b, "INFO", "cpu"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
