package flashsale_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/redisinventory"
)

const redisUnits = 240

// redisFaultConfig detects faults quickly.
var redisFaultConfig = redisinventory.Config{Redeliver: time.Second, Deadline: time.Second, Watch: 200 * time.Millisecond}

// startRedisServer starts a redis-server that can be stopped and restarted on its data, of which it
// has none without fsync.
func startRedisServer(t *testing.T, fsync string) *redistest.Server {
	t.Helper()
	if fsync == "" {
		return redistest.Start(t)
	}
	return redistest.Start(t, "appendonly yes", "appendfsync "+fsync)
}

// TestRedisKill kills the server in the middle of a sale and restarts it. With appendfsync
// always nothing is lost, with everysec perhaps something, and without a log all reservations
// that are not orders.
func TestRedisKill(t *testing.T) {
	t.Parallel()
	for name, fsync := range map[string]string{"always": "always", "everysec": "everysec", "no log": ""} {
		t.Run(name, func(t *testing.T) {
			var tally redisTally
			for range count(2, 50) {
				p := startRedisServer(t, fsync)
				g := redisInventory(t, redisFaultClient(t, "redis://"+p.Addr), redisFaultConfig)
				lost, reopened, s := redisSell(t, g, "s", 1, redisUnits, func(s *redisShop) {
					s.backlog(5)
					p.Stop()
					s.writers.Unlock()
					p.Restart(t)
				})
				tally.add(lost, reopened, s)
				if s.recoveries.Load() == 0 {
					t.Error("the sale continued without a recovery")
				}
				if lost > 0 && fsync == "always" || lost == 0 && fsync == "" {
					t.Errorf("%d were lost with appendfsync %q", lost, fsync)
				}
				g.Stop()
				p.Stop()
			}
			t.Log(&tally)
		})
	}
}

// TestRedisCommands runs mistakes of operators, and evictions.
func TestRedisCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redisFaultClient(t, "redis://"+server.Addr)
	faults := map[string][]any{"flushall": {"FLUSHALL"}, "script flush": {"SCRIPT", "FLUSH"}}
	for _, part := range []string{"state", "users", "line", "out", "res", "done", "stream", "seen"} {
		faults["del "+part] = []any{"DEL", "fs:{s}:" + part}
	}
	for name, command := range faults {
		t.Run(name, func(t *testing.T) {
			var tally redisTally
			for range count(1, 50) {
				server.Do(t, "FLUSHALL")
				g := redisInventory(t, client, redisFaultConfig)
				lost, reopened, s := redisSell(t, g, "s", 1, redisUnits, func(s *redisShop) {
					s.backlog(5)
					server.Do(t, command...)
					s.writers.Unlock()
				})
				tally.add(lost, reopened, s)
				if recovered := s.recoveries.Load() > 0; recovered != (name != "script flush") {
					t.Errorf("recovered: %v", recovered)
				}
				if gone := name == "flushall" || name == "del stream"; (lost > 0) != gone {
					t.Errorf("%d were lost, want some: %v", lost, gone)
				}
				g.Stop()
			}
			t.Log(&tally)
		})
	}
}

// TestRedisSentinelFailover stops a primary whose replica lacks the last writes. The replica has
// the epoch of the sale.
func TestRedisSentinelFailover(t *testing.T) {
	t.Parallel()
	var tally redisTally
	for range count(2, 50) {
		f := redistest.StartFailover(t, "shop")
		g := redisInventory(t, redisFaultClient(t, "redis+sentinel://"+f.Sentinel.Addr+"/shop"), redisFaultConfig)
		lost, reopened, s := redisSell(t, g, "s", 1, redisUnits, func(s *redisShop) {
			f.Cut(t)
			s.backlog(5) // the replica lacks these
			f.Primary.Stop()
			s.writers.Unlock()
		})
		tally.add(lost, reopened, s)
		if s.recoveries.Load() == 0 {
			t.Error("the sale continued without a recovery")
		}
		if lost == 0 {
			t.Error("no reservation was lost, want those that the replica lacks")
		}
		g.Stop()
		f.Stop()
	}
	t.Log(&tally)
}

// redisSlot returns the slot of a sale's keys and the index of the primary that serves it.
func redisSlot(t *testing.T, c *redistest.ClusterServers, id string) (slot int64, owner int) {
	slot = c.Primaries[0].Do(t, "CLUSTER", "KEYSLOT", "fs:{"+id+"}:state").(int64)
	for i := range c.Primaries {
		if slot < int64((i+1)*16384/3) {
			return slot, i
		}
	}
	t.Fatal("no owner")
	return 0, 0
}

// TestRedisClusterFailover promotes the replica of a sale's primary without the primary's
// consent.
func TestRedisClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	g := redisInventory(t, redisFaultClient(t, "redis+cluster://"+c.Addrs()), redisFaultConfig)
	var tally redisTally
	pairs := [2][3]*redistest.Server{c.Replicas, c.Primaries}
	promotions := map[int]int{}
	for round := range count(2, 50) {
		id := "s" + strconv.Itoa(round)
		_, owner := redisSlot(t, c, id)
		next := pairs[promotions[owner]%2][owner]
		promotions[owner]++
		redistest.Await(t, "the replica follows", func() error {
			info := fmt.Sprint(next.Do(t, "INFO", "replication"))
			if !strings.Contains(info, "role:slave") || !strings.Contains(info, "master_link_status:up") {
				return fmt.Errorf("want a replica with a link:\n%s", info)
			}
			return nil
		})
		lost, reopened, s := redisSell(t, g, id, 1, redisUnits, func(s *redisShop) {
			s.goOn()
			next.Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
		})
		tally.add(lost, reopened, s)
		if s.recoveries.Load() == 0 {
			t.Error("the sale continued without a recovery")
		}
	}
	t.Log(&tally)
}

// TestRedisReshard moves the slot of a sale to another node while it sells, and then to the
// third.
func TestRedisReshard(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	g := redisInventory(t, redisFaultClient(t, "redis+cluster://"+c.Addrs()), redisFaultConfig)
	var tally redisTally
	for round := range count(2, 20) {
		id := "m" + strconv.Itoa(round)
		slot, owner := redisSlot(t, c, id)
		lost, reopened, s := redisSell(t, g, id, 1, redisUnits, func(s *redisShop) {
			s.goOn()
			c.Move(t, slot, c.Primaries[owner], c.Primaries[(owner+1)%3])
			c.Move(t, slot, c.Primaries[(owner+1)%3], c.Primaries[(owner+2)%3])
		})
		tally.add(lost, reopened, s)
		if lost > 0 || len(s.ledger.rejected) > 0 {
			t.Errorf("%d were lost and %d rejected, want none: the keys moved with the slot", lost, len(s.ledger.rejected))
		}
		if s.recoveries.Load() == 0 {
			t.Error("the sale continued without a recovery")
		}
		redistest.Await(t, "the sale is deleted", func() error { return g.Delete(t.Context(), id, s.ledger.epoch()) })
		c.Move(t, slot, c.Primaries[(owner+2)%3], c.Primaries[owner])
	}
	t.Log(&tally)
}
