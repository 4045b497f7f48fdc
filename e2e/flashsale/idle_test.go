package flashsale_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// TestIdle measures what open sales without buyers cost: commands to Redis, with those inside
// scripts, transactions of the ledger and CPU time. The commands depend neither on the number
// of sales nor, for each process, on that of processes.
func TestIdle(t *testing.T) {
	parallelUnlessMeasured(t)
	sales, processes, lasts := []int{30}, []int{1, 2}, 3*time.Second
	if long() {
		sales, processes, lasts = []int{1, 50, 500}, []int{1, 2, 4}, 10*time.Second
	}
	for _, n := range sales {
		t.Run(fmt.Sprintf("%d sales", n), func(t *testing.T) {
			redis := redistest.Start(t)
			dsn, pid := measuredDatabase(t)
			secret := t.TempDir() + "/secret"
			if err := os.WriteFile(secret, bytes.Repeat([]byte("5a"), 32), 0o600); err != nil {
				t.Fatal(err)
			}
			c := run.Config{Database: dsn, Redis: "redis://" + redis.Addr, Secret: secret, Shop: "127.0.0.1:0", Office: "127.0.0.1:0"}
			var shops []*shopProcess
			for _, count := range processes {
				for len(shops) < count {
					shop, err := startChild(t, child.Order{Config: c})
					if err != nil {
						t.Fatal(err)
					}
					if shops = append(shops, shop); len(shops) == 1 {
						exposeMany(t, shop, n)
					}
				}
				measureIdle(t, fmt.Sprintf("| %d | %d |", n, count), lasts, shops, redis, pid)
			}
		})
	}
}

// exposeMany creates and exposes sales that are open for an hour.
func exposeMany(t *testing.T, shop *shopProcess, n int) {
	start := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	for i := range n {
		d := sale.Draft{SKU: "idle", Title: fmt.Sprint("idle-", i), Price: 100, Currency: "CNY", Stock: 100, PerUser: 1, Headroom: 3, Queue: sale.Fifo,
			StartsAt: start, EndsAt: start.Add(time.Hour), PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second}
		doc, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shop.Do("create " + string(doc)); err != nil {
			t.Fatal(err)
		}
	}
}

// measureIdle waits until the processes are idle, and measures for a while.
func measureIdle(t *testing.T, row string, lasts time.Duration, shops []*shopProcess, redis *redistest.Server, postgresql int) {
	pids := map[string]int{"redis": redis.PID(), "postgresql": postgresql}
	for i, s := range shops {
		pids[fmt.Sprint("flashsale-", i)] = s.cmd.Process.Pid
	}
	// The commands and the time are those of the server: a busy machine may wake this test late.
	commands := func() (n, micros int64) {
		for line := range strings.Lines(redis.Do(t, "INFO").(string)) {
			fmt.Sscanf(line, "total_commands_processed:%d", &n)
			fmt.Sscanf(line, "server_time_usec:%d", &micros)
		}
		return n, micros
	}
	rate := func(lasts time.Duration) float64 { // of a process
		n, from := commands()
		<-time.After(lasts)
		after, to := commands()
		return float64(after-n) / (float64(to-from) / 1e6) / float64(len(shops))
	}
	// The sales open, and the counts of a new sale are read until they have been the same for a while.
	redistest.Await(t, "no work", func() error {
		if per := rate(time.Second); per > 20 {
			return fmt.Errorf("%.1f commands a second", per)
		}
		return nil
	})
	meter, began := measure.Start(pids), time.Now()
	per := rate(lasts)
	lasts = time.Since(began)
	used := meter.Stop(lasts)
	var shop time.Duration
	for i := range shops {
		shop += used.Servers[fmt.Sprint("flashsale-", i)].CPU
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / lasts.Seconds() }
	row = fmt.Sprintf("%s %.1f | %.1f %% | %.1f %% | %.1f %% |\n", row, per, percent(shop)/float64(len(shops)),
		percent(used.Servers["redis"].CPU), percent(used.Servers["postgresql"].CPU))
	t.Logf("\n| sales | processes | Redis commands/s of a process | CPU of a process | of Redis | of PostgreSQL |\n%s", row)
	if per > 12 {
		t.Errorf("%.1f commands a second for each of %d processes, want at most 12", per, len(shops))
	}
	appendToTable(t, row)
}
