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
	redisDecisions = flag.Int("redis.decisions", usual(5000, 100_000), "random decisions compared for each client and topology")
	redisSeed      = flag.Uint64("redis.seed", 1, "seed of the random decisions")
)

// usual returns the length of a random run: short, or long if WEIR_LONG is set.
func usual(short, long int) int {
	if os.Getenv("WEIR_LONG") != "" {
		return long
	}
	return short
}

// TestRedisConformance runs the suite of every store with each client, on one Redis and on a
// cluster.
func TestRedisConformance(t *testing.T) {
	t.Parallel()
	urls := map[string]string{
		"standalone": "redis://" + redistest.Start(t).Addr,
		"cluster":    "redis+cluster://" + redistest.StartCluster(t).Addrs(),
	}
	for topology, url := range urls {
		for client := range redisConns {
			t.Run(topology+"/"+client, func(t *testing.T) {
				t.Parallel()
				open := openRedis(openConn(t, client, url))
				storetest.Run(t, open)
				t.Run("differential", func(t *testing.T) {
					storetest.Differential(t, open, storetest.DiffConfig{
						Seed: *redisSeed, Decisions: *redisDecisions, Limits: before2255,
					})
				})
			})
		}
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
