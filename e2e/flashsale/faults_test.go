package flashsale_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/jackc/pgx/v5"
)

// reopenWithin is the maximum time for which a sale is closed after its inventory lost its
// state. On an idle machine it is below 5 s.
const reopenWithin = 30 * time.Second

// A redisFault breaks a Redis. server starts it and returns its URL and a function that breaks
// it, which returns the time of the fault.
type redisFault struct {
	name   string
	few    bool // whether it is part of a short run
	lasts  bool // the inventory's state survives
	server func(t *testing.T) (url string, breaks func(sale string) time.Time)
}

// redisFaults returns all faults.
func redisFaults() []redisFault {
	killed := func(fsync string) func(*testing.T) (string, func(string) time.Time) {
		return func(t *testing.T) (string, func(string) time.Time) {
			p := startRedisServer(t, fsync)
			return "redis://" + p.Addr, func(string) time.Time {
				broken := time.Now()
				p.Stop()
				p.Restart(t)
				return broken
			}
		}
	}
	command := func(words ...any) func(*testing.T) (string, func(string) time.Time) {
		return func(t *testing.T) (string, func(string) time.Time) {
			s := redistest.Start(t)
			return "redis://" + s.Addr, func(id string) time.Time {
				w := append([]any{}, words...)
				if w[0] == "DEL" {
					w[1] = "fs:{" + id + "}:" + w[1].(string)
				}
				s.Do(t, w...)
				return time.Now()
			}
		}
	}
	return []redisFault{
		{name: "killed, appendfsync always", server: killed("always")},
		{name: "killed, appendfsync everysec", few: true, server: killed("everysec")},
		{name: "killed, no log", few: true, server: killed("")},
		{name: "script flush", lasts: true, server: command("SCRIPT", "FLUSH")},
		{name: "flushall", few: true, server: command("FLUSHALL")},
		{name: "a key evicted: state", server: command("DEL", "state")},
		{name: "a key evicted: users", server: command("DEL", "users")},
		{name: "a key evicted: stream", few: true, server: command("DEL", "stream")},
		{name: "sentinel failover", few: true, server: sentinelFault},
		{name: "cluster failover", server: clusterFault},
	}
}

// sentinelFault stops a primary whose replica lacks the last writes.
func sentinelFault(t *testing.T) (string, func(string) time.Time) {
	f := redistest.StartFailover(t, "shop")
	return "redis+sentinel://" + f.Sentinel.Addr + "/shop", func(string) time.Time {
		f.Cut(t)
		until(t.Context(), time.Now().Add(300*time.Millisecond))
		f.Primary.Stop()
		return time.Now()
	}
}

// clusterFault promotes the replica of a sale's primary without the primary's consent.
func clusterFault(t *testing.T) (string, func(string) time.Time) {
	c := redistest.StartCluster(t)
	return "redis+cluster://" + c.Addrs(), func(id string) time.Time {
		_, owner := redisSlot(t, c, id)
		c.Replicas[owner].Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
		return time.Now()
	}
}

// holdOrders blocks the order writers until it is released.
func holdOrders(t *testing.T, dsn string) (release func()) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Exec(t.Context(), "BEGIN; LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// faultTotals adds up the rounds of one fault.
type faultTotals struct {
	mu                             sync.Mutex
	rounds                         int
	acknowledged, withdrawn        int
	reported                       int
	lost, rejected, unsold, checks int64
	slowestReport, slowest         time.Duration
}

// totalsOf returns totals that are printed when all rounds of a test have ended.
func totalsOf(t *testing.T, fault string) *faultTotals {
	s := &faultTotals{}
	t.Cleanup(func() {
		if s.rounds > 0 {
			t.Logf("%s: %s", fault, s)
		}
	})
	return s
}

// add adds a round, whose first unit after the fault was granted after reopened.
func (s *faultTotals) add(v *trialResult, reopened time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
	s.acknowledged += v.acknowledged
	s.withdrawn += v.withdrawn
	s.reported += v.reported
	s.lost += v.tally.Lost
	s.rejected += v.tally.Rejected
	s.unsold += v.unsold
	s.checks += v.checks
	s.slowestReport = max(s.slowestReport, v.reportedAfter)
	s.slowest = max(s.slowest, reopened)
}

func (s *faultTotals) String() string {
	return fmt.Sprintf("%d rounds, %d reservations acknowledged, %d of them withdrawn with notice (after at most %v) and %d without; %d lost, %d rejected; "+
		"%d units unsold that buyers wanted; the first unit after at most %v; %d checks of the auditor",
		s.rounds, s.acknowledged, s.reported, s.slowestReport.Round(time.Millisecond), s.withdrawn-s.reported, s.lost, s.rejected,
		s.unsold, s.slowest.Round(time.Millisecond), s.checks)
}

// TestFaultsOfRedis breaks the Redis of two processes in the middle of a sale, while orders are
// held up and its stream is long. Lost acknowledged reservations are reported to their buyers
// and counted, no unit is sold twice, and the sale continues.
func TestFaultsOfRedis(t *testing.T) {
	t.Parallel()
	rounds := 1
	if long() {
		rounds = 50
	}
	for _, f := range redisFaults() {
		if !f.few && !long() {
			continue
		}
		sum := totalsOf(t, f.name)
		for n := range rounds {
			t.Run(fmt.Sprintf("%s/%d", f.name, n+1), func(t *testing.T) {
				t.Parallel()
				url, breaks := f.server(t)
				y := newTrial(t, sharedConfig(t, newDatabase(t, &postgres), url), url)
				y.failed = !f.lasts
				y.serve(0)
				y.serve(0)
				var broken time.Time
				v := y.run(func(ctx context.Context) {
					release := holdOrders(t, y.config.Database)
					until(ctx, time.Now().Add(time.Second))
					broken = breaks(y.sale)
					release()
				})
				reopened, ok := v.reopened(broken)
				if !ok || reopened > reopenWithin {
					t.Errorf("the first unit after %v (any: %v), want at most %v", reopened, ok, reopenWithin)
				}
				if v.tally.Sale.Epoch > 1 == f.lasts {
					t.Errorf("the sale is at epoch %d", v.tally.Sale.Epoch)
				}
				if f.lasts && v.tally.Lost+v.tally.Rejected > 0 {
					t.Errorf("%d reservations are lost", v.tally.Lost+v.tally.Rejected)
				}
				y.stop()
				sum.add(v, reopened)
			})
		}
	}
}
