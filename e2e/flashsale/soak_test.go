package flashsale_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/redis/rueidis"
)

// soakProcesses are processes that serve one sale after the other.
type soakProcesses struct {
	name   string
	config run.Config
	redis  rueidis.Client
	shops  []*shopProcess
	faults []soakFault
	used   map[string][]usage // by process, after each sale
	fault  int
}

// A soakFault is a fault in the middle of a sale.
type soakFault struct {
	name   string
	loses  bool // an inventory may lose acknowledged writes
	kills  int
	breaks func(ctx context.Context, w *soakProcesses, y *trial)
}

// A usage holds the resources of a process.
type usage struct {
	rss int64 // bytes
	fds int
}

func usageOf(c *shopProcess) (u usage) {
	proc := "/proc/" + strconv.Itoa(c.cmd.Process.Pid)
	text, _ := os.ReadFile(proc + "/statm")
	if words := strings.Fields(string(text)); len(words) > 1 {
		pages, _ := strconv.ParseInt(words[1], 10, 64)
		u.rss = pages * int64(os.Getpagesize())
	}
	fds, _ := os.ReadDir(proc + "/fd")
	u.fds = len(fds)
	return u
}

// TestSoak runs one sale after the other, with a fault in each, for the duration of
// FLASHSALE_SOAK. It alternates between the embedded mode and Redis with PostgreSQL, one sale
// every FLASHSALE_SOAK_EVERY or two minutes. It audits every sale, and the processes' memory
// must not grow.
func TestSoak(t *testing.T) {
	text := os.Getenv("FLASHSALE_SOAK")
	if text == "" {
		t.Log("no soak: FLASHSALE_SOAK does not say for how long")
		return
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("FLASHSALE_SOAK: %v", err)
	}
	every := 2 * time.Minute
	if text := os.Getenv("FLASHSALE_SOAK_EVERY"); text != "" {
		if every, err = time.ParseDuration(text); err != nil {
			t.Fatalf("FLASHSALE_SOAK_EVERY: %v", err)
		}
	}
	worlds := []*soakProcesses{embeddedWorld(t), sharedWorld(t)}
	var sales, clean, kills int
	var lost, rejected, checks, paid int64
	began := time.Now()
	for next := began; next.Sub(began) < length && !t.Failed(); next = next.Add(every) {
		until(t.Context(), next)
		w := worlds[sales%2]
		f := w.faults[w.fault%len(w.faults)]
		w.fault++
		v := w.sell(t, f)
		sales++
		kills += f.kills
		lost, rejected, checks, paid = lost+v.tally.Lost, rejected+v.tally.Rejected, checks+v.checks, paid+v.tally.Paid
		var of []string
		for i, c := range w.shops {
			u := usageOf(c)
			name := fmt.Sprintf("%s-%d", w.name, i+1)
			w.used[name] = append(w.used[name], u)
			of = append(of, fmt.Sprintf("%s %.1f MiB %d fds", name, float64(u.rss)/(1<<20), u.fds))
		}
		if !t.Failed() {
			clean++
		}
		t.Logf("%s sale %d, %s: %d paid, %d lost, %d rejected, %d checks; %s", time.Since(began).Round(time.Second), sales, f.name,
			v.tally.Paid, v.tally.Lost, v.tally.Rejected, v.checks, strings.Join(of, ", "))
	}
	for _, w := range worlds {
		for name, us := range w.used {
			flat(t, name, us)
		}
		for _, c := range w.shops {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d of %d sales without a violation in %v: %d paid, %d lost, %d rejected, %d kills, %d checks of the auditor",
		clean, sales, time.Since(began).Round(time.Second), paid, lost, rejected, kills, checks)
}

// flat compares the last third with the first.
func flat(t *testing.T, name string, us []usage) {
	n := len(us) / 3
	if n == 0 {
		return
	}
	mean := func(us []usage) (rss, fds float64) {
		for _, u := range us {
			rss, fds = rss+float64(u.rss)/float64(len(us)), fds+float64(u.fds)/float64(len(us))
		}
		return rss, fds
	}
	rss0, fds0 := mean(us[:n])
	rss1, fds1 := mean(us[len(us)-n:])
	t.Logf("%s: %.1f MiB and %.0f fds in the first third, %.1f MiB and %.0f fds in the last", name, rss0/(1<<20), fds0, rss1/(1<<20), fds1)
	if rss1 > 1.2*rss0+20<<20 || fds1 > 1.2*fds0+20 {
		t.Errorf("%s: memory or descriptors grow", name)
	}
}

// sell runs one sale to its end.
func (w *soakProcesses) sell(t *testing.T, f soakFault) *trialResult {
	y := newTrial(t, w.config, "")
	y.redis, y.shops, y.failed = w.redis, w.shops, f.loses
	draft, err := json.Marshal(y.draft())
	if err != nil {
		t.Fatal(err)
	}
	made, err := y.shop(0).Do("create " + string(draft))
	if err != nil {
		t.Fatal(err)
	}
	y.sale = made.Sale
	v := y.run(func(ctx context.Context) { f.breaks(ctx, w, y) })
	w.shops = y.all()
	if _, err := y.shop(0).Do("kill " + y.sale); err != nil {
		t.Error(err)
	}
	return v
}

// restartLast ends the last process and starts another in its place.
func restartLast(ends func(c *shopProcess) error) func(context.Context, *soakProcesses, *trial) {
	return func(_ context.Context, w *soakProcesses, y *trial) {
		all := y.all()
		c := all[len(all)-1]
		y.remove(c)
		if err := ends(c); err != nil {
			y.t.Error(err)
		}
		y.serve(0)
	}
}

// switches are the faults of every mode.
func switches() []soakFault {
	do := func(y *trial, command string) {
		if _, err := y.shop(0).Do(command); err != nil {
			y.t.Errorf("%s: %v", command, err)
		}
	}
	return []soakFault{
		{name: "none", breaks: func(context.Context, *soakProcesses, *trial) {}},
		{name: "a process killed", kills: 1, breaks: restartLast(func(c *shopProcess) error { c.Kill(); return nil })},
		{name: "a process ended", breaks: restartLast((*shopProcess).Terminate)},
		{name: "paused, and more units", breaks: func(ctx context.Context, _ *soakProcesses, y *trial) {
			do(y, "pause "+y.sale)
			until(ctx, time.Now().Add(500*time.Millisecond))
			do(y, "resume "+y.sale)
			do(y, "stock "+y.sale+" more 5")
			y.units += 5
		}},
	}
}

func embeddedWorld(t *testing.T) *soakProcesses {
	w := &soakProcesses{name: "embedded", faults: switches(), used: map[string][]usage{}}
	w.start(t, run.Config{Data: t.TempDir()}, 1)
	return w
}

func sharedWorld(t *testing.T) *soakProcesses {
	pg, redis := pgtest.Start(t, "max_connections=200"), startRedisServer(t, "everysec")
	addr := redis.Addr
	w := &soakProcesses{name: "shared", used: map[string][]usage{}, redis: redisClient(t, "redis://"+addr)}
	w.start(t, sharedConfig(t, pg.DSN(pg.NewDB(t)), "redis://"+addr), 2)
	command := func(words ...any) func(context.Context, *soakProcesses, *trial) {
		return func(_ context.Context, _ *soakProcesses, y *trial) {
			c, err := redistest.Dial(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			args := append([]any{}, words...)
			if args[0] == "DEL" {
				args[1] = "fs:{" + y.sale + "}:" + args[1].(string)
			}
			if _, err := c.Do(args...); err != nil {
				t.Error(err)
			}
		}
	}
	w.faults = append(switches(),
		soakFault{name: "redis killed", loses: true, kills: 1, breaks: func(context.Context, *soakProcesses, *trial) { redis.Stop(); redis.Restart(t) }},
		soakFault{name: "script flush", breaks: command("SCRIPT", "FLUSH")},
		soakFault{name: "flushall", loses: true, breaks: command("FLUSHALL")},
		soakFault{name: "state evicted", loses: true, breaks: command("DEL", "state")},
		soakFault{name: "stream evicted", loses: true, breaks: command("DEL", "stream")},
		soakFault{name: "postgres killed", kills: 1, breaks: func(ctx context.Context, _ *soakProcesses, _ *trial) {
			pg.Kill()
			until(ctx, time.Now().Add(time.Second))
			pg.Start(t)
		}},
		soakFault{name: "postgres stopped for 2 s", breaks: func(ctx context.Context, _ *soakProcesses, _ *trial) {
			pg.Pause()
			until(ctx, time.Now().Add(2*time.Second))
			pg.Cont()
		}},
	)
	rand.Shuffle(len(w.faults), func(i, j int) { w.faults[i], w.faults[j] = w.faults[j], w.faults[i] })
	return w
}

// start starts the processes.
func (w *soakProcesses) start(t *testing.T, c run.Config, n int) {
	y := newTrial(t, c, "")
	y.sale = "none yet"
	for range n {
		y.serve(0)
	}
	w.config, w.shops = y.config, y.all()
}
