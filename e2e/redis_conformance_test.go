package e2e_test

import (
	"flag"
	"os"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/storetest"
)

var (
	redisDecisions = flag.Int("redis.decisions", usual(2500, 100_000), "random decisions compared for each client and topology")
	redisSeed      = flag.Uint64("redis.seed", 1, "seed of the random decisions")
)

// usual returns the length of a random run: short, or long if WEIR_LONG is set.
func usual(short, long int) int {
	if os.Getenv("WEIR_LONG") != "" {
		return long
	}
	return short
}

// A redisWay is a client and a topology.
type redisWay struct{ topology, client string }

// redisSuites has the ways in which the suite of every store runs: as the only user of a server,
// and with the documented permissions. Every way has a whole suite in one of the two.
var redisSuites = struct{ all, permitted []redisWay }{
	[]redisWay{{"standalone", "rueidis"}, {"cluster", "goredis"}},
	[]redisWay{{"standalone", "goredis"}, {"cluster", "rueidis"}},
}

// TestRedisConformance runs the suite of every store on one Redis and on a cluster. TestRedisACL
// runs it with the other client of each.
func TestRedisConformance(t *testing.T) {
	t.Parallel()
	urls := map[string]string{
		"standalone": "redis://" + redistest.Start(t).Addr,
		"cluster":    "redis+cluster://" + redistest.StartCluster(t).Addrs(),
	}
	for i, w := range redisSuites.all {
		t.Run(w.topology+"/"+w.client, func(t *testing.T) {
			t.Parallel()
			open := openRedis(openConn(t, w.client, urls[w.topology]))
			storetest.Run(t, open)
			t.Run("differential", func(t *testing.T) {
				storetest.Differential(t, open, storetest.DiffConfig{
					Seed: *redisSeed + uint64(i), Decisions: *redisDecisions, Limits: before2255,
				})
			})
		})
	}
}

// before2255 excludes limits whose states exceed 2^53 µs, the largest exact number in Redis.
// These are limits that keep a key for many decades, in a run whose clock reaches 2150.
func before2255(c weir.LimitConfig) bool {
	if b, ok := c.(weir.TokenBucket); !ok || b.Initial == nil {
		return true
	}
	l, err := weir.NewLimit(c)
	return err == nil && l.Spec().Rule.Horizon() < algo.MaxSpan/4 // with a debt and an idle period
}
