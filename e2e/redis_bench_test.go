package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

// BenchmarkRedis measures Takes over 1,000 keys by so many callers, and the time
// of one processor that Redis spends on each.
//
//	go test -run '^$' -bench BenchmarkRedis -benchtime 100000x ./e2e
func BenchmarkRedis(b *testing.B) {
	limit := weir.MustLimit("1000/s burst 1000000")
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	s := redistest.Start(b)
	for client := range redisConns {
		for _, callers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/callers=%d", client, callers), func(b *testing.B) {
				store := newRedisStore(b, openConn(b, client, "redis://"+s.Addr), redisstore.Config{})
				before := redisCPU(b, s)
				var next atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(max(1, callers/2)) // times GOMAXPROCS
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					r := weir.Request{Limit: limit, N: 1}
					for pb.Next() {
						r.Key = keys[next.Add(1)%int64(len(keys))]
						if _, err := store.Do(context.Background(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				b.ReportMetric((redisCPU(b, s)-before)*1e9/float64(b.N), "redis-ns/op")
			})
		}
	}
}

// redisCPU is the processor time that the server has used, in seconds.
func redisCPU(tb testing.TB, s *redistest.Server) (total float64) {
	tb.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Do(tb, "INFO", "cpu"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			total += v
		}
	}
	return total
}
