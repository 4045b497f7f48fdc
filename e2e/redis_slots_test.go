package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/memstore"
)

// TestRedisSharedSlots compares concurrency slots shared by limits of different counts and
// leases, in Redis and in memory, with a list of their expiry times.
func TestRedisSharedSlots(t *testing.T) {
	t.Parallel()
	limits := []weir.Limit{
		weir.MustLimit("4 concurrency lease 10s shared"),
		weir.MustLimit("6 concurrency lease 10s shared"),
		weir.MustLimit("6 concurrency lease 3s shared"),
		weir.MustLimit("40 concurrency lease 20s shared"),
		weir.MustLimit("1000 concurrency lease 1s shared"),
	}
	urls := map[string]string{
		"standalone": "redis://" + redistest.Start(t).Addr,
		"cluster":    "redis+cluster://" + redistest.StartCluster(t).Addrs(),
	}
	for i, w := range redisSuites.all {
		t.Run(w.topology+"/"+w.client, func(t *testing.T) {
			h := openRedis(openConn(t, w.client, urls[w.topology]))(t)
			var clock atomic.Int64
			memory, err := memstore.New(memstore.Config{Clock: clock.Load})
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			now := time.Now().UnixMicro()
			var over []int64 // expiry times of the slots in use, sorted
			rnd := rand.New(rand.NewPCG(*redisSeed+uint64(i), 7))
			var steps []string
			for range *redisDecisions {
				now += rnd.Int64N(2_000_000)
				clock.Store(now)
				h.SetNow(now)
				i := rnd.IntN(len(limits))
				if rnd.IntN(8) > 0 {
					i = i % 3 // the small ones more often
				}
				l := limits[i]
				r := weir.Request{Verb: []weir.Verb{weir.Take, weir.Take, weir.Return, weir.Peek}[rnd.IntN(4)], Key: "k", Limit: l, N: 1 + rnd.Int64N(3)}
				steps = append(steps, fmt.Sprintf("%d: %s %d of %s", now, r.Verb, r.N, l))
				got, err := h.Store.Do(t.Context(), r)
				twin, err2 := memory.Do(t.Context(), r)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				over = slices.DeleteFunc(over, func(at int64) bool { return at <= now })
				count, lease := l.Count(), l.Period().Microseconds()
				ok := true
				switch used := int64(len(over)); r.Verb {
				case weir.Take:
					if ok = used+r.N <= count; ok {
						for range r.N {
							over = append(over, now+lease)
						}
						slices.Sort(over)
					}
				case weir.Peek:
					ok = used+r.N <= count
				case weir.Return:
					over = over[min(used, r.N):]
				}
				left := max(0, count-int64(len(over)))
				if got.OK != ok || got.Remaining != left || twin.OK != ok || twin.Remaining != left || got.RetryAfter != twin.RetryAfter {
					t.Fatalf("%s = %v, %d left, again in %v; in memory %v, %d, %v; want %v, %d\nbefore: %v", steps[len(steps)-1],
						got.OK, got.Remaining, got.RetryAfter, twin.OK, twin.Remaining, twin.RetryAfter, ok, left, steps[max(0, len(steps)-9):len(steps)-1])
				}
			}
		})
	}
}
