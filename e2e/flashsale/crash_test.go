package flashsale_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/internal/porttest"
)

// resumeWithin is the maximum time without a response after a kill.
const resumeWithin = 10 * time.Second

// TestCrash kills the process at every crash point between a purchase and a returned unit,
// starts another one, and audits the sale. It runs in the embedded mode, and over Redis and
// PostgreSQL.
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := 1
	if long() {
		rounds = 10
	}
	var sum crashTotals
	points := crashPoints()
	round := func(name string, visit int64, p crashPoint, config func(t *testing.T) (c run.Config, forget func())) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum.begin()
			with, forget := config(t)
			c := newCrash(t, with, p, visit)
			if p.late {
				c.forget = forget
			}
			c.run()
			sum.add(c)
		})
	}
	t.Cleanup(func() { // after the parallel rounds
		t.Logf("%d kills in %d rounds at %d points: %d checks of the auditor; at most %v without a response",
			sum.kills, sum.rounds, len(points), sum.checks, sum.slowest.Round(time.Millisecond))
		if sum.kills < sum.rounds {
			t.Errorf("%d kills, want at least %d: some points were not reached", sum.kills, sum.rounds)
		}
	})
	for n := range rounds {
		for _, p := range points {
			round(fmt.Sprintf("embedded/%s/%d", p.point, n+1), int64(n%3)+1, p, func(t *testing.T) (run.Config, func()) {
				return run.Config{Data: t.TempDir()}, nil
			})
		}
	}
	for n := range rounds {
		for i, p := range points {
			if p.embedded || !long() && i%4 != 0 {
				continue
			}
			round(fmt.Sprintf("shared/%s/%d", p.point, n+1), int64(n%3)+1, p, func(t *testing.T) (run.Config, func()) {
				redis := redistest.Start(t, "appendonly yes", "appendfsync always")
				return sharedConfig(t, newDatabase(t, &postgres), "redis://"+redis.Addr), func() { redis.Do(t, "FLUSHALL") }
			})
		}
	}
}

// sharedConfig returns a configuration over servers.
func sharedConfig(t *testing.T, dsn, redis string) run.Config {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	return run.Config{Database: dsn, Redis: redis, Secret: secret}
}

// crashTotals adds up all rounds.
type crashTotals struct {
	mu            sync.Mutex
	rounds, kills int64
	checks        int64
	slowest       time.Duration
}

func (s *crashTotals) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
}

func (s *crashTotals) add(c *crash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills += c.kills
	s.checks += c.checks
	s.slowest = max(s.slowest, c.slowest)
}

// A crash is one sale with one kill, or with several at a late point.
type crash struct {
	t      *testing.T
	config run.Config
	point  crashPoint
	visit  int64 // the visit at which a process is killed; at a late point, the number of processes that are killed, each at its first visit
	stock  int64
	forget func() // empties Redis when the first process is killed, so that the sale is recovered; nil to keep its state

	base         atomic.Pointer[string]
	seen         bytes.Buffer
	log          *calllog.Log
	lastResponse atomic.Int64 // in ns

	mu      sync.Mutex
	now     *shopProcess
	kills   int64
	slowest time.Duration
	checks  int64
	sale    string
}

func newCrash(t *testing.T, c run.Config, p crashPoint, visit int64) *crash {
	c.Shop, c.Office = ownAddress(t), "127.0.0.1:0"
	c.TrustedProxies = []string{"127.0.0.1"}
	c.Layers = lenientLayersFile(t)
	k := &crash{t: t, config: c, point: p, visit: visit, stock: 4}
	k.log = calllog.NewLog(&k.seen)
	return k
}

// ownAddress returns a loopback address of its own. No other server takes it between the death
// of a process and the start of the next.
func ownAddress(t *testing.T) string {
	return fmt.Sprintf("127.%d.%d.%d:%d", 1+mathrand.IntN(254), mathrand.IntN(256), 1+mathrand.IntN(254), porttest.Free(t))
}

func (k *crash) run() {
	ctx, cancel := context.WithTimeout(context.Background(), trialWithin)
	defer cancel()
	start := time.Now().Add(500 * time.Millisecond).Truncate(time.Millisecond)
	order := child.Order{Config: k.config, Create: &sale.Draft{
		SKU: "crash", Title: k.point.point, Price: 100, Stock: k.stock, PerUser: 1, StartsAt: start, EndsAt: start.Add(time.Hour),
		Queue: sale.Fifo, PayWithin: time.Second, TokenFor: time.Second,
	}}
	if !k.point.late {
		order.Point, order.Visit = k.point.point, k.visit
	}
	first, err := startChild(k.t, order)
	if err != nil {
		k.t.Fatal(err)
	}
	k.sale = first.Sale
	k.base.Store(&first.Shop)
	k.now = first
	k.lastResponse.Store(time.Now().UnixNano())

	watched := make(chan struct{})
	go func() { defer close(watched); k.restart(ctx) }()
	var wg sync.WaitGroup
	ends := make([]string, 3*int(k.stock)) // a third of them pay
	var had [3]atomic.Int64
	over := make([]chan struct{}, len(ends)) // closed when a customer has ended
	for i := range over {
		over[i] = make(chan struct{})
	}
	gave, given := context.WithCancel(ctx)
	defer given()
	for i := range ends {
		wg.Go(func() {
			defer close(over[i])
			does := end(i % 3)
			if does == pays { // the others start first, so that they have a unit to return
				<-gave.Done()
			}
			if k.visit > 1 && k.point.inTurn(does) && i >= 3 {
				<-over[i-3]
			}
			c := &customer{Base: &k.base, Sale: k.sale, Ends: does, Log: k.log, From: fmt.Sprintf("198.51.100.%d", i+1), Answer: k.responded}
			c.Has = func() {
				had[does].Add(1)
				if had[cancels].Load() >= k.visit && had[expires].Load() >= k.visit {
					given()
				}
			}
			state, err := c.shop(ctx)
			for err == nil && does == cancels && state == "expired" { // it was too slow
				state, err = c.shop(ctx)
			}
			if err != nil {
				k.t.Errorf("customer %d: %v", i, err)
			}
			ends[i] = state
		})
	}
	if k.point.stock {
		k.addStock(ctx)
	}
	wg.Wait()
	k.reached(ctx)
	k.check(ctx, ends)
	cancel()
	<-watched
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.now.Stop(); err != nil {
		k.t.Error(err)
	}
}

// responded records a response, and the time since the previous one.
func (k *crash) responded(at time.Time) {
	before := k.lastResponse.Swap(at.UnixNano())
	if gap := time.Duration(at.UnixNano() - before); before > 0 {
		k.mu.Lock()
		k.slowest = max(k.slowest, gap)
		k.mu.Unlock()
	}
}

// wanted returns the number of processes to kill at the point.
func (k *crash) wanted() int64 {
	if k.point.late {
		return k.visit
	}
	return 1
}

// reached waits until the processes are killed and another one serves: the last customer may end
// before the last unit is returned.
func (k *crash) reached(ctx context.Context) {
	kills := func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.kills
	}
	for deadline := time.Now().Add(within(resumeWithin)); kills() < k.wanted(); {
		if time.Now().After(deadline) || !until(ctx, time.Now().Add(20*time.Millisecond)) {
			k.t.Errorf("%d processes were killed, want %d: %s was not reached %d times", kills(), k.wanted(), k.point.point, k.visit)
			return
		}
	}
}

// restart starts another process after each kill. With a late point it kills the first process
// itself in the middle of the sale, and the next ones are killed at the point.
func (k *crash) restart(ctx context.Context) {
	late := int64(0)
	if k.point.late {
		late = k.visit
		if !until(ctx, time.Now().Add(1200*time.Millisecond)) {
			return
		}
		k.now.Kill()
		if k.forget != nil {
			k.forget()
		}
	}
	for n := int64(0); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-k.now.Ended:
		}
		if !k.now.killed() {
			k.t.Errorf("the process ended without a kill: %v", k.now.cmd.ProcessState)
			return
		}
		order := child.Order{Config: k.config}
		if n < late {
			order.Point, order.Visit = k.point.point, 1
		}
		next, err := startChild(k.t, order)
		if err != nil && !errors.Is(err, errKilled) {
			k.t.Error(err)
			return
		}
		k.mu.Lock()
		k.now = next
		if !k.point.late || n > 0 { // this function killed the first one
			k.kills++
		}
		k.mu.Unlock()
	}
}

// addStock adds two units for each visit, and retries until it succeeds.
func (k *crash) addStock(ctx context.Context) {
	for n := int64(1); n <= k.visit; {
		k.mu.Lock()
		c := k.now
		k.mu.Unlock()
		wait := 100 * time.Millisecond
		if _, err := c.Do(fmt.Sprintf("stock %s more-%d 2", k.sale, n)); err == nil {
			k.stock += 2
			n++
			wait = 500 * time.Millisecond // the next ones in the middle of the sale
		}
		if n <= k.visit && !until(ctx, time.Now().Add(wait)) {
			k.t.Error("units could not be added")
			return
		}
	}
}

// check checks the responses of the buyers, and runs the auditor.
func (k *crash) check(ctx context.Context, ends []string) {
	paid := int64(0)
	for i, e := range ends {
		switch {
		case e == "paid":
			paid++
		case (e == "lost" || e == "rejected") && k.forget == nil:
			k.t.Errorf("customer %d: its acknowledged reservation is %s", i, e)
		}
	}
	if paid == 0 || paid > k.stock {
		k.t.Errorf("%d customers paid %d units: %q", paid, k.stock, ends)
	}
	if k.slowest > within(resumeWithin) {
		k.t.Errorf("buyers had no response for %v, want at most %v", k.slowest, within(resumeWithin))
	}
	if err := k.log.Flush(); err != nil {
		k.t.Fatal(err)
	}
	seen, err := calllog.Read(&k.seen)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		if k.t.Failed() {
			k.t.Log(summary(seen))
		}
	}()
	a := openAuditor(k.t, auditor.Config{Database: database(k.config), Sales: []string{k.sale}})
	report, err := a.Final(ctx, auditor.Facts{
		Observations: seen, Settled: true, Failed: k.forget != nil, Demand: map[string]int64{k.sale: int64(len(ends) / 3)},
		Reconcile: func(_ context.Context, id string) (int, error) {
			l, err := k.now.Do("reconcile " + id)
			return l.Changed, err
		},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	k.checks = report.Checks()
	if report.Violations() > 0 {
		k.t.Errorf("%s\nends: %q", table(report), slices.Sorted(slices.Values(ends)))
	}
}

// summary counts observations by call and response.
func summary(seen []calllog.Call) string {
	counts := map[string]int{}
	for _, o := range seen {
		counts[fmt.Sprintf("%s %d %s %s %s", o.Action, o.Status, o.Layer, o.Reason, o.State)]++
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%5d %s\n", counts[k], k)
	}
	return text.String()
}
