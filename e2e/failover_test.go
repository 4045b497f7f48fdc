package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// A fault is a way in which a store fails.
type fault struct {
	name       string
	directives []string
	scheme     string // redis if empty
	// start prepares functions that break and repair a server behind a faultProxy.
	start func(t *testing.T, s *redistest.Server, g *faultProxy) (breaks, repairs func())
}

// faults lists all faults. A real Redis causes those that it can be made to cause.
var faults = []fault{
	{name: "refused", start: proxyFault(proxyRefuse)},
	{name: "black hole", start: proxyFault(proxyMute)},
	{name: "slow", start: proxyFault(proxySlow)},
	{name: "reset", start: proxyFault(proxyReset)},
	{name: "half-open", start: proxyFault(proxyDead)},
	{name: "LOADING", start: proxyFault(proxyMode{reply: "-LOADING Redis is loading the dataset in memory\r\n"})},
	{name: "garbage", start: proxyFault(proxyMode{reply: "HTTP/1.1 400 Bad Request\r\n\r\n"})},
	{name: "READONLY", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		primary := redistest.Start(t)
		host, port, _ := strings.Cut(primary.Addr, ":")
		return func() { s.Do(t, "REPLICAOF", host, port) }, func() { s.Do(t, "REPLICAOF", "NO", "ONE") }
	}},
	{name: "CLUSTERDOWN", directives: []string{"cluster-enabled yes", "cluster-node-timeout 500"}, scheme: "redis+cluster", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		slots := make([]any, 16384)
		for i := range slots {
			slots[i] = i
		}
		serve := func() {
			s.Do(t, append([]any{"CLUSTER", "ADDSLOTS"}, slots...)...)
			redistest.Await(t, "the slots are served", func() error {
				if info := fmt.Sprint(s.Do(t, "CLUSTER", "INFO")); !strings.Contains(info, "cluster_state:ok") {
					return fmt.Errorf("%s", info)
				}
				return nil
			})
		}
		serve()
		return func() { s.Do(t, append([]any{"CLUSTER", "DELSLOTS"}, slots...)...) }, serve
	}},
	{name: "MISCONF", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		dir := fmt.Sprint(s.Do(t, "CONFIG", "GET", "dir").([]any)[1])
		return func() {
			// Redis cannot write its snapshot where a directory is.
			if err := os.MkdirAll(filepath.Join(dir, "dump.rdb", "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			s.Do(t, "CONFIG", "SET", "save", "3600 1000000")
			s.Do(t, "BGSAVE")
			redistest.Await(t, "a snapshot has failed", func() error {
				if info := fmt.Sprint(s.Do(t, "INFO", "persistence")); !strings.Contains(info, "rdb_last_bgsave_status:err") {
					return fmt.Errorf("%s", info)
				}
				return nil
			})
		}, func() { s.Do(t, "CONFIG", "SET", "save", "") }
	}},
	{name: "OOM", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		return func() { s.Do(t, "CONFIG", "SET", "maxmemory", 1) }, func() { s.Do(t, "CONFIG", "SET", "maxmemory", 0) }
	}},
	{name: "BUSY", directives: []string{"lua-time-limit 1"}, start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		done := make(chan struct{})
		return func() {
			go func() {
				defer close(done)
				if c, err := redistest.Dial(s.Addr); err == nil {
					c.Do("EVAL", "while true do end", 0)
					c.Close()
				}
			}()
			redistest.Await(t, "the script runs", func() error {
				c, err := redistest.Dial(s.Addr)
				if err != nil {
					return err
				}
				defer c.Close()
				if _, err := c.Do("PING"); err == nil || !strings.Contains(err.Error(), "BUSY") {
					return fmt.Errorf("PING = %v", err)
				}
				return nil
			})
		}, func() { s.Do(t, "SCRIPT", "KILL"); <-done }
	}},
	{name: "NOAUTH", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		return func() {
				s.Do(t, "CONFIG", "SET", "requirepass", "secret")
				c, err := redistest.Dial(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Do("AUTH", "secret"); err != nil {
					t.Fatal(err)
				}
				c.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") // the authenticated connections
			}, func() {
				c, err := redistest.Dial(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.Do("AUTH", "secret")
				if _, err := c.Do("CONFIG", "SET", "requirepass", ""); err != nil {
					t.Error(err)
				}
			}
	}},
	{name: "WRONGTYPE", start: func(t *testing.T, s *redistest.Server, _ *faultProxy) (func(), func()) {
		key := "weir:1:{hot}:" + strings.ReplaceAll(deadLimit.String(), " ", "+")
		return func() { s.Do(t, "DEL", key); s.Do(t, "RPUSH", key, "x") }, func() { s.Do(t, "DEL", key) }
	}},
}

func proxyFault(mode proxyMode) func(*testing.T, *redistest.Server, *faultProxy) (func(), func()) {
	return func(t *testing.T, _ *redistest.Server, g *faultProxy) (func(), func()) {
		return func() { g.set(t, mode) }, func() { g.set(t, proxyPass) }
	}
}

// deadLimit is the limit during a fault. Its share for one of 3 nodes is one token.
var deadLimit = weir.MustLimit("3/24h")

// A cell is one client library and one fallback, under one fault.
type cell struct {
	client  string
	mode    weir.FailMode
	bounded *failover.Store
	store   weir.Store // bounded, with the fallback for mode

	mu       sync.Mutex
	took     []time.Duration
	wrong    string // the first decision that does not match the mode
	wrongs   int
	overload int // requests that this process refused, because it is busy
	admitted int
	back     time.Duration
	opened   atomic.Int64 // how often the breaker opened
	why      error        // why the breaker is open at the end of the fault
}

func newCells(t *testing.T, url string) (all []*cell) {
	for _, client := range []string{"rueidis", "goredis"} {
		for _, mode := range []weir.FailMode{policy.Open, policy.Closed, policy.Local} {
			conn, err := redisConns[client](url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			store, err := redisstore.New(conn, redisstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			c := &cell{client: client, mode: mode}
			config := failover.Config{Cooldown: 200 * time.Millisecond, Observe: func(change failover.Change) {
				if change.State != failover.Up {
					c.opened.Add(1)
				}
			}}
			var fallback weir.Store
			switch mode {
			case policy.Open:
				fallback = failover.Open()
			case policy.Closed:
				fallback = failover.Closed()
			default:
				mem, err := memstore.New(memstore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if fallback, err = failover.NewLocal(mem, 3); err != nil {
					t.Fatal(err)
				}
			}
			bounded, err := failover.New(store, config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { bounded.Close() })
			c.bounded, c.store = bounded, failover.WithFallback(bounded, fallback)
			all = append(all, c)
		}
	}
	return all
}

// ask takes one token of the hot key and checks the decision against the mode.
func (c *cell) ask(t *testing.T) {
	began := time.Now()
	d, err := c.store.Do(t.Context(), weir.Request{Key: "hot", Limit: deadLimit, N: 1})
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
	if d.OK {
		c.admitted++
	}
	if errors.Is(err, weir.ErrOverloaded) && !d.OK {
		c.overload++
		return
	}
	bad := err != nil || d.Degraded != c.mode
	switch c.mode {
	case policy.Open:
		bad = bad || !d.OK
	case policy.Closed:
		bad = bad || d.OK
	default:
		bad = bad || c.admitted > 1
	}
	if bad {
		if c.wrongs++; c.wrong == "" {
			c.wrong = fmt.Sprintf("%+v, %v", d, err)
		}
	}
}

// decided reports whether a decision was made. The others are refused by a busy process.
func (c *cell) decided() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overload < len(c.took)
}

// faultTime is the duration of a fault, and hammerTime its maximum on a busy machine.
const (
	faultTime  = 400 * time.Millisecond
	hammerTime = 10 * time.Second
)

// warmUp opens the connections that the clients use under load.
func warmUp(t *testing.T, cells []*cell) {
	var wg sync.WaitGroup
	for _, c := range cells {
		for range 16 {
			wg.Go(func() {
				for range 20 {
					c.store.Do(t.Context(), weir.Request{Key: "warm", Limit: deadLimit, N: 1})
				}
			})
		}
	}
	wg.Wait()
	for _, c := range cells {
		redistest.Await(t, "the store decides", func() error { return decides(c, "warm", deadLimit) })
	}
}

// decides peeks at a key and returns an error if the store did not decide.
func decides(c *cell, key string, limit weir.Limit) error {
	d, err := c.store.Do(context.Background(), weir.Request{Verb: weir.Peek, Key: key, Limit: limit})
	if err == nil && d.Degraded != "" {
		err = fmt.Errorf("degraded %s: %v", d.Degraded, c.bounded.Err())
	}
	return err
}

// hammer sends requests to all cells for faultTime, from several goroutines each. While a busy
// process refuses all requests of a cell, it continues for up to hammerTime.
func hammer(t *testing.T, cells []*cell) {
	began := time.Now()
	var wg sync.WaitGroup
	end := time.NewTimer(faultTime)
	stop := make(chan struct{})
	go func() { <-end.C; close(stop) }()
	for _, c := range cells {
		for range 4 {
			wg.Go(func() {
				tick := time.NewTicker(2 * time.Millisecond)
				defer tick.Stop()
				for {
					c.ask(t)
					select {
					case <-tick.C:
						continue
					case <-stop:
					}
					if c.decided() || time.Since(began) > hammerTime {
						return
					}
					<-tick.C
				}
			})
		}
	}
	wg.Wait()
}

// TestDeadStoreMatrix runs every fault with every fallback and both clients. During the fault
// each decision is the configured one and in time, or this process is busy and refuses the
// request. After it the store decides again.
func TestDeadStoreMatrix(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-12s %-8s %-7s %9s %6s %6s %8s %8s %6s %5s %8s\n", "fault", "client", "mode", "decisions", "wrong", "busy", "p99.9", "max", "goros", "opened", "back in")
	var slowest time.Duration
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := redistest.Start(t, f.directives...)
			g := startFaultProxy(t, s.Addr)
			if f.scheme != "" {
				s.Do(t, "CONFIG", "SET", "cluster-announce-port", g.addr[strings.LastIndex(g.addr, ":")+1:])
			}
			breaks, repairs := f.start(t, s, g)
			cells := newCells(t, cmp.Or(f.scheme, "redis")+"://"+g.addr)
			warmUp(t, cells)
			before := runtime.NumGoroutine()
			breaks()
			most := sampleGoroutines(func() { hammer(t, cells) })
			dialled := g.dialled()
			for _, c := range cells {
				c.why = c.bounded.Err()
			}
			repaired := time.Now()
			repairs()
			for _, c := range cells {
				recovered(t, c, repaired)
			}
			for _, c := range cells {
				slices.Sort(c.took)
				p999, worst := c.took[len(c.took)-1-len(c.took)/1000], c.took[len(c.took)-1]
				slowest = max(slowest, worst)
				fmt.Fprintf(&table, "%-12s %-8s %-7s %9d %6d %6d %8.1f %8.1f %6d %5d %8.0f\n", f.name, c.client, c.mode, len(c.took), c.wrongs, c.overload,
					ms(p999), ms(worst), most-before, c.opened.Load(), ms(c.back))
				if c.wrongs > 0 {
					t.Errorf("%s, %s: %d of %d decisions do not match the mode, the first: %s", c.client, c.mode, c.wrongs, len(c.took), c.wrong)
				}
				if c.overload == len(c.took) {
					t.Errorf("%s, %s: this process refused all of %d requests", c.client, c.mode, c.overload)
				}
				if c.back > patient {
					t.Errorf("%s, %s: the store was back after %v", c.client, c.mode, c.back)
				}
				if worst >= slowDelay { // 0.1 s on an idle machine
					t.Errorf("%s, %s: a decision took %v", c.client, c.mode, worst)
				}
			}
			if most-before > 300 {
				t.Errorf("%d goroutines more during the fault", most-before)
			}
			t.Logf("%d connections were made during the fault; rueidis: %v; goredis: %v", dialled, cells[0].why, cells[3].why)
		})
	}
	t.Logf("ms; the slowest decision took %v\n%s", slowest, &table)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// recovered waits until the store decides for a cell again and checks that decisions are
// exact. A busy machine may miss the deadline, and then it is unknown whether the request was
// charged, so recovered tries another key.
func recovered(t *testing.T, c *cell, repaired time.Time) {
	t.Helper()
	limit := weir.MustLimit("4/24h")
	redistest.Await(t, "the store decides again", func() error { return decides(c, "warm", deadLimit) })
	c.back = time.Since(repaired)
	round := 0
	redistest.Await(t, "five decisions in a row are exact", func() error {
		round++
		for i := range int64(5) {
			d, err := c.store.Do(t.Context(), weir.Request{Key: fmt.Sprint(c.client, c.mode, round), Limit: limit, N: 1})
			if err != nil || d.Degraded != "" {
				return fmt.Errorf("take %d = %+v, %v", i, d, err)
			}
			if d.OK != (i < 4) || d.Remaining != max(0, 3-i) {
				t.Errorf("%s, %s: take %d of 4 after the fault = %+v", c.client, c.mode, i, d)
			}
		}
		return nil
	})
}

// sampleGoroutines returns the largest number of goroutines while f runs.
func sampleGoroutines(f func()) (most int) {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		most = max(most, runtime.NumGoroutine())
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}

// TestFailoverOfAFarStore checks a store whose connection takes longer than a decision may.
// After it has lost its connections, it is used again.
func TestFailoverOfAFarStore(t *testing.T) {
	s := redistest.Start(t)
	g := startFaultProxy(t, s.Addr)
	cells := newCells(t, "redis://"+g.addr)
	for _, c := range cells {
		redistest.Await(t, "the store decides", func() error { return decides(c, "warm", deadLimit) })
	}
	g.set(t, proxyRefuse)
	hammer(t, cells)
	g.set(t, proxyFar)
	repaired := time.Now()
	for _, c := range cells {
		redistest.Await(t, "the store decides again", func() error { return decides(c, "warm", deadLimit) })
		t.Logf("%s, %s: found again in %v", c.client, c.mode, time.Since(repaired))
	}
}
