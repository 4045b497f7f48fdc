package flashsale_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger"
)

// reportWithin is the maximum time after which a buyer receives that a reservation is lost.
const reportWithin = 2 * time.Second

// checkWithdrawn fails the test if a reservation was rejected, or if a buyer received too late that
// it is lost.
func (v *trialResult) checkWithdrawn(t *testing.T) {
	t.Helper()
	if v.reportedAfter > within(reportWithin) {
		t.Errorf("a buyer received after %v that the reservation is lost, want at most %v", v.reportedAfter, within(reportWithin))
	}
	if v.tally.Rejected > 0 {
		t.Errorf("%d granted reservations are rejected", v.tally.Rejected)
	}
	if v.unsold > 0 {
		t.Errorf("%d units are unsold that buyers wanted", v.unsold)
	}
}

// TestBothDatabasesKilled kills the Redis and the PostgreSQL of several processes together, while
// order writers have batches. Redis comes back empty, or without its last writes. A batch of
// the lost epoch becomes no order in the next one, and no reservation is rejected.
func TestBothDatabasesKilled(t *testing.T) {
	t.Parallel()
	rounds, all := count(1, 50), totalsOf(t, "all cases")
	for _, processes := range []int{2, 3} {
		if processes == 3 && !long() {
			continue
		}
		for _, fsync := range []string{"", "everysec"} {
			if fsync != "" && !long() {
				continue
			}
			name := fmt.Sprintf("%d processes/fsync %q", processes, fsync)
			sum := totalsOf(t, name)
			for n := range rounds {
				t.Run(fmt.Sprintf("%s/%d", name, n+1), func(t *testing.T) {
					killBoth(t, processes, fsync, sum, all)
				})
			}
		}
	}
}

func killBoth(t *testing.T, processes int, fsync string, sums ...*faultTotals) {
	pg, redis := pgtest.Start(t, "max_connections=200"), startRedisServer(t, fsync)
	url := "redis://" + redis.Addr
	y := newTrial(t, sharedConfig(t, pg.DSN(pg.NewDB(t)), url), url)
	y.failed, y.units, y.pay = true, 80, 4*time.Second
	for range processes {
		y.serve(0)
	}
	var back time.Time
	v := y.run(func(ctx context.Context) {
		release := holdOrders(t, y.config.Database)
		until(ctx, time.Now().Add(rand.N(800*time.Millisecond)))
		var both sync.WaitGroup
		both.Go(redis.Stop)
		both.Go(pg.Kill)
		both.Wait()
		release()
		both.Go(func() { until(ctx, time.Now().Add(rand.N(time.Second))); redis.Restart(t) })
		both.Go(func() { until(ctx, time.Now().Add(rand.N(time.Second))); pg.Start(t) })
		both.Wait()
		back = time.Now()
	})
	v.checkWithdrawn(t)
	reopened, ok := v.reopened(back)
	if !ok || reopened > reopenWithin {
		t.Errorf("the first unit after %v (any: %v), want at most %v", reopened, ok, reopenWithin)
	}
	t.Logf("epoch %d, %d paid of %d, %d acknowledged, %d lost, %d rejected, reported after at most %v, the first unit after %v, %d checks of the auditor",
		v.tally.Sale.Epoch, v.tally.Paid, y.units, v.acknowledged, v.tally.Lost, v.tally.Rejected, v.reportedAfter.Round(time.Millisecond), reopened.Round(time.Millisecond), v.checks)
	for _, sum := range sums {
		sum.add(v, reopened)
	}
	y.stop()
}

// TestStoppedInTransaction stops a process with SIGSTOP while it has the row of the sale locked.
// The others create orders again when PostgreSQL ends its session. The process then continues,
// and nothing is lost.
func TestStoppedInTransaction(t *testing.T) {
	t.Parallel()
	sum := totalsOf(t, "stopped in a transaction")
	for n := range count(1, 20) {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			y := sharedTrial(t)
			y.pay = 20 * time.Second
			stopped := y.serveOrder(child.Order{Config: y.config, Point: crashpoint.PlaceInserted, Visit: 2, Stop: true})
			y.serve(0)
			var at, resumed time.Time
			v := y.run(func(ctx context.Context) {
				stopped.awaitStopped(t)
				at = time.Now()
				y.remove(stopped)
				y.awaitOrder(ctx, at)
				resumed = time.Now()
				if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Error(err)
				}
			})
			v.checkWithdrawn(t)
			if n := v.tally.Lost; n > 0 || v.tally.Sale.Epoch != 1 {
				t.Errorf("%d reservations are lost, the sale is at epoch %d", n, v.tally.Sale.Epoch)
			}
			if blocked := resumed.Sub(at); blocked > within(10*time.Second) { // 5 s for its session, and one retry
				t.Errorf("no order for %v", blocked)
			}
			t.Logf("the others wrote an order after %v; %d paid of %d, %d checks of the auditor", resumed.Sub(at).Round(time.Millisecond), v.tally.Paid, y.units, v.checks)
			sum.add(v, 0)
			y.stop()
		})
	}
}

// awaitOrder waits until an order is created after an instant.
func (y *trial) awaitOrder(ctx context.Context, after time.Time) {
	y.t.Helper()
	l := openPostgres(y.t, y.config.Database, ledger.Config{NoMigrate: true})
	redistest.Await(y.t, "an order", func() error {
		orders, err := l.RecentOrders(ctx, y.sale, "")
		for _, o := range orders {
			if o.CreatedAt.After(after) {
				return nil
			}
		}
		return fmt.Errorf("none of %d orders is new: %v", len(orders), err)
	})
}

// TestCutOff cuts one process off from one database, whose packets are dropped. The others go
// on, and no reservation is lost.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"postgres", "redis"} {
		if from == "redis" && !long() {
			continue
		}
		sum := totalsOf(t, "cut off from "+from)
		for n := range count(1, 20) {
			t.Run(fmt.Sprintf("%s/%d", from, n+1), func(t *testing.T) {
				t.Parallel()
				y := sharedTrial(t)
				y.pay = 20 * time.Second
				o := child.Order{Config: y.config}
				var proxy *redistest.Proxy
				if from == "postgres" {
					proxy, o.Config.Database = proxied(t, o.Config.Database)
				} else {
					proxy, o.Config.Redis = proxied(t, o.Config.Redis)
				}
				cut := y.serveOrder(o)
				y.serve(0)
				var at time.Time
				v := y.run(func(ctx context.Context) {
					proxy.Set(redistest.DropAll)
					at = time.Now()
					y.awaitOrder(ctx, at)
					y.remove(cut)
					until(ctx, at.Add(3*time.Second))
					proxy.Set(redistest.NoFault)
				})
				v.checkWithdrawn(t)
				if n := v.tally.Lost; n > 0 {
					t.Errorf("%d reservations are lost", n)
				}
				t.Logf("epoch %d, %d paid of %d, %d calls 503, %d checks of the auditor", v.tally.Sale.Epoch, v.tally.Paid, y.units, v.unavailable, v.checks)
				sum.add(v, 0)
				y.stop()
			})
		}
	}
}

// proxied starts a proxy to the server of a URL, and returns it with the URL of the proxy.
func proxied(t *testing.T, server string) (*redistest.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, u.Host)
	u.Host = proxy.Addr
	return proxy, u.String()
}
