package flashsale_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/load"
	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// purchaseConnections is the number of connections of buyers: a purchase waits for two commits,
// during which its connection is idle.
const purchaseConnections = 512

// TestPurchases measures complete purchases: each buyer clicks and pays. The
// buyers of one sale are divided among the processes; the other sales are open and idle.
func TestPurchases(t *testing.T) {
	parallelUnlessMeasured(t)
	buyers, sales, processes := 300, []int{3}, []int{2}
	if long() {
		buyers, sales, processes = 24_000, []int{1, 50, 500}, []int{1, 2, 4}
	}
	t.Run("embedded", func(t *testing.T) {
		data := t.TempDir()
		measurePurchases(t, "embedded", buyers, 1, 1, child.Order{Config: run.Config{Data: data}}, auditor.Config{Database: data + "/flashsale.db"}, nil)
	})
	for _, n := range sales {
		for _, p := range processes {
			t.Run(fmt.Sprintf("%d sales, %d processes", n, p), func(t *testing.T) {
				redis := redistest.Start(t)
				dsn, pid := measuredDatabase(t)
				secret := t.TempDir() + "/secret"
				if err := os.WriteFile(secret, bytes.Repeat([]byte("5a"), 32), 0o600); err != nil {
					t.Fatal(err)
				}
				url := "redis://" + redis.Addr
				measurePurchases(t, "Redis + PostgreSQL", buyers, n, p, child.Order{Config: run.Config{Database: dsn, Redis: url, Secret: secret}},
					auditor.Config{Database: dsn, Redis: redisClient(t, url)}, map[string]int{"redis": redis.PID(), "postgresql": pid})
			})
		}
	}
}

// TestPurchasesStopped stops the process while clicks wait for the journal, for longer than a call
// may take, as a busy machine does. The clicks fail, but have reserved units: their buyers click
// again, get the same units, and all pay.
func TestPurchasesStopped(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	o := child.Order{Config: run.Config{Data: data}, Point: crashpoint.ReserveDecided, Visit: 2, Stop: true}
	measurePurchases(t, "embedded, stopped", 300, 1, 1, o, auditor.Config{Database: data + "/flashsale.db"}, nil)
}

// stoppedFor is longer than the deadline of a call to the inventory or the ledger.
const stoppedFor = 3 * time.Second

// measurePurchases runs the buyers of one sale and audits it. If o stops the process, measurePurchases
// continues it after stoppedFor.
func measurePurchases(t *testing.T, mode string, buyers, sales, processes int, o child.Order, ac auditor.Config, servers map[string]int) {
	c := &o.Config
	c.Shop, c.Office, c.TrustedProxies = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	start := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	d := sale.Draft{SKU: "load", Title: "load", Price: 100, Stock: int64(buyers), PerUser: 1, Headroom: 3,
		StartsAt: start, EndsAt: start.Add(time.Hour), PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second}
	pids := map[string]int{}
	for name, pid := range servers {
		pids[name] = pid
	}
	var shops []*shopProcess
	for i := range processes {
		if o.Create = nil; i == 0 {
			o.Create = &d
		}
		shop, err := startChild(t, o)
		if err != nil {
			t.Fatal(err)
		}
		shops = append(shops, shop)
		pids[fmt.Sprint("shop ", i)] = shop.cmd.Process.Pid
	}
	exposeMany(t, shops[0], sales-1)
	secret := c.Secret
	if secret == "" {
		secret = c.Data + "/secret"
	}
	keys, err := run.Keys(secret)
	if err != nil {
		t.Fatal(err)
	}
	visits := 0 // each from another address, so that no limit denies it
	redistest.Await(t, "the sale at every process", func() error {
		for _, s := range shops {
			visits++
			from := fmt.Sprintf("10.9.%d.%d", visits/250%250, visits%250)
			if _, body := visit(t, "GET", s.Shop+"/api/sales/"+shops[0].Sale, "", "X-Forwarded-For", from); !strings.Contains(body, `"phase":"open"`) {
				return fmt.Errorf("the sale is %s", body)
			}
		}
		return nil
	})
	until := time.Now().Add(2 * time.Hour)
	seen := make([]bytes.Buffer, processes)
	results := make([]load.Result, processes)
	var wg sync.WaitGroup
	scripts, meter, began := redisScripts(t, ac), measure.Start(pids), time.Now()
	for i, s := range shops {
		wg.Go(func() {
			var err error
			results[i], err = load.Run(t.Context(), load.Config{URL: s.Shop, Sale: shops[0].Sale, Profile: load.Drain, Click: true, Pay: 100,
				Users: buyers / processes, Connections: min(purchaseConnections, buyers) / processes, Prefix: fmt.Sprint("p", i), Addresses: buyers,
				Session:      func(user string) string { return keys.Session(pass.Session{User: user, Expires: until}) },
				Observations: &seen[i], Duration: 5 * time.Minute})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if o.Stop {
		shops[0].awaitStopped(t)
		<-time.After(stoppedFor)
		if err := shops[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	used := meter.Stop(time.Since(began))
	took := buying(results)
	paid, requests, shop := 0, int64(0), time.Duration(0)
	var generator time.Duration // without the setup of the buyers and the writing of the observations
	for i, r := range results {
		generator = max(generator, r.CPU) // each run measures this process
		requests += r.Requests
		if paid += r.Paid; r.Bound || len(r.Faults)+len(r.Errors) > 0 {
			t.Errorf("process %d: faults %v, errors %v\n%s", i, r.Faults, r.Errors, r.Text())
		}
		shop += used.Servers[fmt.Sprint("shop ", i)].CPU
	}
	if paid != buyers/processes*processes {
		t.Errorf("%d paid, want %d", paid, buyers)
		for _, r := range results {
			t.Log(r.Text())
		}
	}
	total := redisScripts(t, ac) - scripts
	calls := float64(total) / float64(paid)
	ms := func(d time.Duration) float64 { return 1000 * d.Seconds() / float64(paid) }
	row := fmt.Sprintf("| %s | %d | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", mode, sales, processes, float64(paid)/took.Seconds(), calls,
		ms(shop), ms(used.Servers["redis"].CPU), ms(used.Servers["postgresql"].CPU), ms(generator))
	t.Logf("\n| server | open sales | processes | purchases/s | Redis calls | CPU ms of the shop | of Redis | of PostgreSQL | of the generator |\n%s", row)
	// At most one for the limits of each request, and one for the reservation: under load, requests
	// share calls. A buyer who pays before the order is written costs another. Reading and
	// acknowledging a stream is shared.
	early := max(0, requests-2*int64(paid))
	if most := requests + int64(paid) + early + int64(50*processes)*int64(1+took.Seconds()); total > most {
		t.Errorf("%d calls to Redis for %d purchases with %d requests, want at most %d", total, paid, requests, most)
	}
	if !o.Stop {
		appendToTable(t, row)
	}
	var all bytes.Buffer
	for i := range seen {
		all.Write(seen[i].Bytes())
	}
	ac.Sales = []string{shops[0].Sale}
	audit(t, ac, shops[0], &all)
	for _, s := range shops {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// buying returns the time from the first request of all runs to the last response, without the
// setup of the buyers and the writing of the observations.
func buying(results []load.Result) time.Duration {
	first, last := results[0].Began, results[0].Began
	for _, r := range results {
		if r.Began.Before(first) {
			first = r.Began
		}
		if end := r.Began.Add(r.Took); end.After(last) {
			last = end
		}
	}
	return last.Sub(first)
}

// redisScripts returns how many scripts the Redis of an auditor has run: each is one round trip.
func redisScripts(t *testing.T, ac auditor.Config) (n int64) {
	t.Helper()
	if ac.Redis == nil {
		return 0
	}
	text, err := ac.Redis.Do(t.Context(), ac.Redis.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var calls int64
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &calls); err == nil {
			n += calls
		}
	}
	return n
}
