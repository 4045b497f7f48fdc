package flashsale_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/load"
)

// A loadCase is one row of the load table: the sale, the users, and what must hold on every
// machine. The table has the speed; no test checks it.
type loadCase struct {
	name  string
	draft sale.Draft // StartsAt is relative to now, in year 1
	lobby bool       // the sale does not start during the run
	held  bool       // orders are written after all units are reserved, and their rate is measured
	load  load.Config
	holds func(load.Result) error
}

// connections is the number of connections of a run: as many as a proxy opens to a shop.
const connections = 128

// loadCases returns the cases of the table, or small ones of the same kinds.
func loadCases() []loadCase {
	users, units, orders, storm := 2000, int64(100), 500, time.Second
	bound := time.Minute
	if long() {
		users, units, orders, storm, bound = 100_000, 1000, 20_000, 15*time.Second, 5*time.Minute
	}
	sells := func(want int) func(load.Result) error {
		return func(r load.Result) error {
			if r.Bought != want || r.Drained == 0 || r.Active > 0 || r.Bound {
				return fmt.Errorf("%d bought, %d active, drained after %s, want %d bought and 0 active", r.Bought, r.Active, r.Drained, want)
			}
			return nil
		}
	}
	return []loadCase{
		{name: "open", draft: sale.Draft{Stock: units}, load: load.Config{Connections: connections, Profile: load.Open, Users: users, Pay: 100, Duration: bound}, holds: sells(int(units))},
		// 15,000 new users per second, as far as this machine serves them.
		{name: "arriving", draft: sale.Draft{Stock: units}, load: load.Config{Connections: connections, Profile: load.Open, Users: users, Over: time.Duration(users) * time.Second / 15_000, Pay: 100, Duration: bound}, holds: sells(int(units))},
		{name: "drain", draft: sale.Draft{Stock: int64(orders)}, load: load.Config{Connections: connections, Profile: load.Drain, Users: orders, Duration: bound}, holds: sells(orders)},
		{name: "writers", held: true, draft: sale.Draft{Stock: int64(orders)}, load: load.Config{Connections: connections, Profile: load.Drain, Users: orders, Duration: bound}, holds: sells(orders)},
		{name: "soldout", draft: sale.Draft{Stock: 1}, load: load.Config{Connections: connections, Profile: load.SoldOut, Users: users, Duration: storm}, holds: func(r load.Result) error {
			if r.Refused != r.Requests || r.Requests == 0 {
				return fmt.Errorf("%d of %d refused", r.Refused, r.Requests)
			}
			return nil
		}},
		{name: "waiting", lobby: true, draft: sale.Draft{Stock: units, Queue: sale.Shuffled, Lobby: time.Hour}, load: load.Config{Connections: connections, Profile: load.Waiting, Users: users, Duration: storm + 15*storm/10}, holds: func(r load.Result) error {
			if r.Active != r.Users || r.Bought != 0 {
				return fmt.Errorf("%d of %d users wait", r.Active, r.Users)
			}
			return nil
		}},
		{name: "mixed", draft: sale.Draft{Stock: 60}, load: load.Config{Profile: load.Mixed, Users: 200, Connections: 64, MaxPoll: 500 * time.Millisecond, Duration: bound}, holds: sells(60)},
	}
}

// TestLoadEmbedded and TestLoadReal run the cases and audit each one.
func TestLoadEmbedded(t *testing.T) {
	parallelUnlessMeasured(t)
	runLoadCases(t, "embedded", "no server but its own; every order durable in SQLite (synced log)", func(t *testing.T) (run.Config, auditor.Config, map[string]int) {
		data := t.TempDir()
		return run.Config{Data: data}, auditor.Config{Database: data + "/flashsale.db"}, nil
	})
}

func TestLoadReal(t *testing.T) {
	parallelUnlessMeasured(t)
	runLoadCases(t, "real", "Redis inventory and limits, orders durable in PostgreSQL (fsync on)", func(t *testing.T) (run.Config, auditor.Config, map[string]int) {
		redis := redistest.Start(t)
		dsn, pid := measuredDatabase(t)
		secret := t.TempDir() + "/secret"
		if err := os.WriteFile(secret, bytes.Repeat([]byte("5a"), 32), 0o600); err != nil {
			t.Fatal(err)
		}
		return run.Config{Database: dsn, Redis: "redis://" + redis.Addr, Secret: secret},
			auditor.Config{Database: dsn, Redis: redisClient(t, "redis://"+redis.Addr)},
			map[string]int{"redis": redis.PID(), "postgresql": pid}
	})
}

// parallelUnlessMeasured runs a test in parallel, except at full counts, when it measures.
func parallelUnlessMeasured(t *testing.T) {
	if !long() {
		t.Parallel()
	}
}

func runLoadCases(t *testing.T, mode, work string, config func(*testing.T) (run.Config, auditor.Config, map[string]int)) {
	times := 1
	if long() {
		times = 3
	}
	for _, c := range loadCases() {
		t.Run(c.name, func(t *testing.T) {
			parallelUnlessMeasured(t)
			var rs []load.Result
			for i := range times {
				t.Run(fmt.Sprint(i+1), func(t *testing.T) {
					rc, ac, servers := config(t)
					c := c
					c.load.Mode, c.load.Work, c.load.Processes = mode, work, servers
					rs = append(rs, runLoad(t, c, rc, ac))
				})
			}
			if len(rs) == times {
				tabulate(t, mode, c.name, rs)
			}
		})
	}
}

// runLoad runs one case on a sale of its own.
func runLoad(t *testing.T, c loadCase, rc run.Config, ac auditor.Config) load.Result {
	t.Helper()
	d := c.draft
	d.SKU, d.Title, d.Price, d.PerUser, d.Headroom = "load", "load", 100, 1, 3
	start := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
	if c.lobby {
		start = start.Add(50 * time.Minute)
	}
	d.StartsAt, d.EndsAt, d.PayWithin, d.TokenFor = start, start.Add(time.Hour), 15*time.Minute, 30*time.Second
	rc.Shop, rc.Office, rc.TrustedProxies = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	shop, err := startChild(t, child.Order{Config: rc, Create: &d, Hold: c.held})
	if err != nil {
		t.Fatal(err)
	}
	secret := rc.Secret
	if secret == "" {
		secret = rc.Data + "/secret"
	}
	keys, err := run.Keys(secret)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(2 * time.Hour)
	seen := &bytes.Buffer{}
	l := c.load
	l.URL, l.Sale, l.Addresses = shop.Shop, shop.Sale, l.Users
	l.Session = func(user string) string { return keys.Session(pass.Session{User: user, Expires: until}) }
	l.Observations, l.Sampled = seen, long()
	l.Processes = map[string]int{"flashsale": shop.cmd.Process.Pid}
	maps.Copy(l.Processes, c.load.Processes)
	if !c.lobby {
		l.At = start
	}
	var written time.Time // when the writing of orders began
	if c.held {
		var asked time.Time
		backlog := -1
		l.Backlog = func(context.Context) (int64, error) {
			if time.Since(asked) < 100*time.Millisecond && backlog != 0 { // the dashboard adds load too
				return int64(backlog), nil
			}
			line, err := shop.Do("backlog " + shop.Sale)
			if err == nil && written.IsZero() && line.Changed == l.Users {
				_, err = shop.Do("write")
				written = time.Now()
			}
			asked, backlog = time.Now(), line.Changed
			return int64(backlog), err
		}
	}
	if l.Profile == load.SoldOut {
		first := l
		first.Profile, first.Users, first.Pay, first.Prefix, first.Duration = load.Open, 1, 100, "first", 30*time.Second
		if r, err := load.Run(t.Context(), first); err != nil || r.Paid != 1 {
			t.Fatalf("the only unit was not sold: %v\n%s", err, r.Text())
		}
		redistest.Await(t, "sold out", func() error { // every process follows within moments
			if _, body := visit(t, "GET", shop.Shop+"/api/sales/"+shop.Sale, ""); !strings.Contains(body, `"phase":"sold_out"`) {
				return fmt.Errorf("the sale is %s", body)
			}
			return nil
		})
	}
	r, err := load.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if c.held {
		r.Drained -= written.Sub(r.Began)
		r.Drain = float64(l.Users) / r.Drained.Seconds()
	}
	t.Logf("\n%s", r.Text())
	if err := c.holds(r); err != nil {
		t.Error(err)
	}
	if len(r.Faults) > 0 || len(r.Errors) > 0 {
		t.Errorf("faults %v, errors %v", r.Faults, r.Errors)
	}
	audit(t, ac, shop, seen)
	if err := shop.Stop(); err != nil {
		t.Error(err)
	}
	return r
}

// audit audits a sale after all users have stopped.
func audit(t *testing.T, ac auditor.Config, shop *shopProcess, seen *bytes.Buffer) {
	t.Helper()
	observations, err := calllog.Read(seen)
	if err != nil {
		t.Fatal(err)
	}
	a := openAuditor(t, ac)
	report, err := a.Final(t.Context(), auditor.Facts{Observations: observations, Complete: !long(),
		Reconcile: func(_ context.Context, id string) (int, error) {
			line, err := shop.Do("reconcile " + id)
			return line.Changed, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	report.WriteTo(&text)
	t.Logf("\n%s", text.String())
	if report.Violations() > 0 || report.Checks() == 0 {
		t.Errorf("%d violations in %d checks", report.Violations(), report.Checks())
	}
}

// TestLoadFronted runs the first row of the table behind each front, and then the load after all
// units are sold.
func TestLoadFronted(t *testing.T) {
	parallelUnlessMeasured(t)
	times := 1
	if long() {
		times = 3
	}
	weir := programtest.Weir(t)
	for _, kind := range frontKinds {
		t.Run(kind, func(t *testing.T) {
			var opens, storms []load.Result
			for range times {
				o, s := runFrontLoad(t, weir, kind)
				opens, storms = append(opens, o), append(storms, s)
			}
			tabulate(t, "fronted by "+kind, "open", opens)
			tabulate(t, "fronted by "+kind, "soldout", storms)
		})
	}
}

// runFrontLoad runs users against a front, and after the sale is sold out a flood.
func runFrontLoad(t *testing.T, weir, kind string) (open, storm load.Result) {
	t.Helper()
	users, units, lasts := 2000, int64(100), time.Second
	if long() {
		users, units, lasts = 100_000, 1000, 15*time.Second
	}
	data := t.TempDir()
	start := time.Now().Add(4 * time.Second).Truncate(time.Millisecond)
	d := sale.Draft{SKU: "load", Title: "load", Price: 100, Stock: units, PerUser: 1, Headroom: 3, Queue: sale.Direct,
		StartsAt: start, EndsAt: start.Add(time.Hour), PayWithin: 15 * time.Minute, TokenFor: time.Minute} // longer than the run: no ticket expires
	shop, err := startChild(t, child.Order{Config: run.Config{Data: data, Shop: "127.0.0.1:0", Office: "127.0.0.1:0", TrustedProxies: []string{"127.0.0.1"}}, Create: &d})
	if err != nil {
		t.Fatal(err)
	}
	f := startFront(t, weir, kind, strings.TrimPrefix(shop.Shop, "http://"), front.Config{Trusted: []string{"127.0.0.1"}})
	keys, err := run.Keys(data + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(2 * time.Hour)
	f.PIDs["flashsale"] = shop.cmd.Process.Pid
	seen := &bytes.Buffer{}
	l := load.Config{URL: f.URL, Sale: shop.Sale, Connections: connections, Users: users, Addresses: users, Patience: 3, Pay: 100, At: start.Add(1100 * time.Millisecond),
		Session:      func(user string) string { return keys.Session(pass.Session{User: user, Expires: until}) },
		Observations: seen, Sampled: true, Processes: f.PIDs, Duration: 5 * time.Minute,
		Mode: "fronted by " + kind, Work: "the front limits addresses, sessions and the sale; behind it the embedded mode"}
	if open, err = load.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", open.Text())
	if open.Bought != int(units) || len(open.Faults) > 0 || len(open.Errors) > 0 {
		t.Errorf("%d bought, want %d; faults %v, errors %v", open.Bought, units, open.Faults, open.Errors)
	}
	audit(t, auditor.Config{Database: data + "/flashsale.db"}, shop, seen)
	l.Profile, l.Prefix, l.Duration, l.At, l.Observations = load.SoldOut, "late", lasts, time.Time{}, nil
	if storm, err = load.Run(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", storm.Text())
	if storm.Refused != storm.Requests || storm.Requests == 0 || len(storm.Faults) > 0 || len(storm.Errors) > 0 {
		t.Errorf("%d of %d refused; faults %v, errors %v", storm.Refused, storm.Requests, storm.Faults, storm.Errors)
	}
	if err := shop.Stop(); err != nil {
		t.Error(err)
	}
	return open, storm
}

// tabulate writes a row with the medians of runs to the log and to the file that FLASHSALE_TABLE
// names.
func tabulate(t *testing.T, mode, name string, rs []load.Result) {
	t.Helper()
	median := func(of func(load.Result) float64) float64 {
		var all []float64
		for _, r := range rs {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	ms := func(of func(load.Result) time.Duration) float64 {
		return median(func(r load.Result) float64 { return of(r).Seconds() * 1000 })
	}
	rss := func(r load.Result) float64 { return float64(r.Servers["flashsale"].RSS) / (1 << 20) }
	row := fmt.Sprintf("| %s | %s | %d | %d | %.0f | %.0f | %.1f | %.0f | %.0f | %.0f | %.0f | %.0f %% |\n", mode, name, rs[0].Users, len(rs),
		median(func(r load.Result) float64 { return r.PerSecond }),
		median(func(r load.Result) float64 { return float64(r.Refused) / r.Took.Seconds() }),
		ms(func(r load.Result) time.Duration { return r.Latency.P99 }),
		ms(func(r load.Result) time.Duration { return r.Reserved }), ms(func(r load.Result) time.Duration { return r.Drained }),
		median(func(r load.Result) float64 { return r.Drain }), median(rss), 100*median(func(r load.Result) float64 { return r.Share }))
	t.Logf("\n| server | load | users | runs | requests/s | refusals/s | p99 ms | reserved ms | drained ms | orders/s | MiB | generator |\n%s", row)
	appendToTable(t, row)
}

// appendToTable writes a row to the file that FLASHSALE_TABLE names.
func appendToTable(t *testing.T, row string) {
	t.Helper()
	path := os.Getenv("FLASHSALE_TABLE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(row); err != nil {
		t.Fatal(err)
	}
}
