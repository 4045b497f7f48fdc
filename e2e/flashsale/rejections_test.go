package flashsale_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/load"
)

// TestRejections measures clicks that buy nothing, over HTTP: before the start, while all units are
// taken, and when all are paid. Each connection clicks again after each response.
func TestRejections(t *testing.T) {
	parallelUnlessMeasured(t)
	t.Run("embedded", func(t *testing.T) {
		measureRejections(t, "embedded", run.Config{Data: t.TempDir()}, nil)
	})
	t.Run("real", func(t *testing.T) {
		dsn, _ := measuredDatabase(t)
		redis := redistest.Start(t)
		secret := t.TempDir() + "/secret"
		if err := os.WriteFile(secret, bytes.Repeat([]byte("5a"), 32), 0o600); err != nil {
			t.Fatal(err)
		}
		measureRejections(t, "Redis + PostgreSQL", run.Config{Database: dsn, Redis: "redis://" + redis.Addr, Secret: secret},
			map[string]int{"redis": redis.PID()})
	})
}

func measureRejections(t *testing.T, mode string, c run.Config, pids map[string]int) {
	users, requests := 1000, int64(2000)
	if long() {
		users, requests = 50_000, 100_000
	}
	c.Shop, c.Office, c.TrustedProxies = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	shop, err := startChild(t, child.Order{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	secret := c.Secret
	if secret == "" {
		secret = c.Data + "/secret"
	}
	keys, err := run.Keys(secret)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(2 * time.Hour)
	l := load.Config{URL: shop.Shop, Click: true, Addresses: users, Duration: time.Minute,
		Session: func(user string) string { return keys.Session(pass.Session{User: user, Expires: until}) }}
	processes := map[string]int{"shop": shop.cmd.Process.Pid}
	for name, pid := range pids {
		processes[name] = pid
	}
	for _, state := range []struct {
		name   string
		starts time.Duration
		status int
		buys   bool // the unit, before the others click
		pay    int
	}{
		{"not started", time.Hour, 425, false, 0},
		{"all taken, waiting", time.Second, 200, true, 0},
		{"sold out", time.Second, 410, true, 100},
	} {
		start := time.Now().Add(state.starts).Truncate(time.Millisecond)
		doc, err := json.Marshal(sale.Draft{SKU: "load", Title: "load", Price: 100, Currency: "CNY", Stock: 1, PerUser: 1, Headroom: 3, Queue: sale.Fifo,
			StartsAt: start, EndsAt: start.Add(time.Hour), PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		made, err := shop.Do("create " + string(doc))
		if err != nil {
			t.Fatal(err)
		}
		run := l
		run.Sale = made.Sale
		if state.buys {
			first := run
			first.Profile, first.Users, first.Pay, first.Prefix = load.Drain, 1, state.pay, "first"
			r, err := load.Run(t.Context(), first)
			if err != nil || r.Bought != 1 || r.Paid != state.pay/100 {
				t.Fatalf("%s: the first buyer: %v\n%s", state.name, err, r.Text())
			}
		}
		run.Profile, run.Users, run.Requests, run.Connections, run.Processes = load.SoldOut, users, requests, min(512, users), processes
		r, err := load.Run(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Status[state.status]
		if state.status == 200 {
			got += r.Status[201] // the first click of a user makes the ticket
		}
		busy := r.Status[429] + r.Status[503] // of the layers
		if got < requests/2 || got+busy != r.Requests || len(r.Faults)+len(r.Errors) > 0 {
			t.Errorf("%s: want %d responses with %d, and none but 429 and 503 beside them\n%s", state.name, requests, state.status, r.Text())
		}
		us := func(d time.Duration) float64 { return 1e6 * d.Seconds() / float64(r.Requests) }
		row := fmt.Sprintf("| %s | %s | %.0f | %.1f | %.1f | %.1f |\n", mode, state.name, float64(r.Requests)/r.Took.Seconds(),
			us(r.Servers["shop"].CPU), us(r.Servers["redis"].CPU), us(r.CPU))
		t.Logf("\n| server | sale | responses/s | CPU µs of the shop | of Redis | of the generator |\n%s", row)
		appendToTable(t, row)
	}
	if err := shop.Stop(); err != nil {
		t.Error(err)
	}
}
