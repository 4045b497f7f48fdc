package simulate

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
)

var (
	seeds = flag.Int("seeds", 30, "number of seeds that TestSimulation runs")
	first = flag.Uint64("first", 1, "the first of them")
	seed  = flag.Uint64("seed", 0, "run only this seed, and print its event log")
	twice = flag.Int("twice", 5, "number of seeds that TestSeedReproduces runs twice")
)

// The phases of a run.
const (
	recovery = 1500 * time.Millisecond // after the faults: a cool-down of the breaker, and requests
	quiet    = 2500 * time.Millisecond // after the faults, with requests
)

// A report is the result of a run.
type report struct {
	hash       string
	lines      []string
	violations []string
	requests   int
	decisions  int // of the script
	faults     map[string]int
	outcomes   map[string]int
	virtual    time.Duration
}

var vm = redismodel.NewVM()

// simulate runs a seed in a bubble of virtual time.
func simulate(t *testing.T, seed uint64, bug string, keep bool) (out report) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, keep)
		shards := pick(w, []int{1, 1, 3})
		c := newCluster(w, vm, shards)
		f := newFaults(w)
		set := policies(w)
		r := newRecorder(w, allLimits(set), shards)
		r.clock = func() time.Time { return time.Now().Add(c.offset) }
		n := &network{world: w, shards: c.shards, links: map[[2]int]*link{}, bug: bug, faults: f, record: r}
		l := &workload{world: w, faults: f, record: r, counts: map[string]int{}, byID: map[int]*request{}, think: w.between(10*time.Millisecond, 300*time.Millisecond)}
		r.canceled = l.canceled
		for i := range 1 + w.rng.IntN(4) {
			l.shared = append(l.shared, fmt.Sprintf("hot%d", i*3+w.rng.IntN(3)))
		}
		nodes, calls, clients := 1+w.rng.IntN(3), 64, 6
		if w.chance(0.15) { // more requests than a node may have in progress
			calls, clients, l.think = 1+w.rng.IntN(2), 10, 25*time.Millisecond
			f.kinds = append(f.kinds, "many requests")
		}
		cached := w.chance(0.6)
		for i := range nodes {
			n.routes, n.cut = append(n.routes, map[int]int{}), append(n.cut, false)
			l.nodes = append(l.nodes, newNode(w, n, i, nodes, calls, cached, set))
		}
		keys := slices.Clone(l.shared)
		for i := range w.rng.IntN(3) {
			q := newQuota(w, i, nodes, l.nodes[0].front)
			l.quotas, r.quotas[q.key], keys = append(l.quotas, q), q, append(keys, q.key)
		}
		w.after(100*time.Millisecond, l.changes)
		for i := range nodes {
			for j := range 1 + w.rng.IntN(clients) {
				l.start(i, j)
			}
		}
		stop := w.between(time.Second, 4*time.Second)
		w.after(f.pause, func() {
			f.loop(n, c, keys, func(key string) []weir.Limit {
				if q := r.quotas[key]; q != nil {
					return q.chain
				}
				return []weir.Limit{limitOf(key)}
			})
		})
		w.run(stop, n.send, nil)
		f.end(n, c)
		l.quiet, l.exactFrom = w.now(), w.now()+recovery
		w.after(quiet, func() { l.stopped = true })
		w.after(recovery, func() {
			for _, x := range l.nodes {
				if x.guarded.Open() {
					r.violate("recovery: the breaker of node %d is open %v after the faults ended", x.index, recovery)
				}
			}
		})
		if !w.run(w.now()+time.Minute, n.send, func() bool { return l.stopped && l.open == 0 }) {
			r.violate("%d requests do not end within a minute", l.open)
		}
		n.instant = true
		probed := false
		go func() {
			l.probe()
			w.pass(0, "probed", func() { probed = true })
		}()
		if !w.run(w.now()+time.Hour, n.send, func() bool { return probed }) {
			r.violate("RetryAfter: the probe does not end")
		}
		r.checkBounds()
		l.checkLocal()
		l.checkOnce()
		for _, s := range c.shards {
			for _, key := range s.server.Keys() {
				if s.server.TTL(key) == -1 {
					r.violate("%s has no TTL", key)
				}
			}
		}
		for _, x := range l.nodes {
			if x.cache != nil {
				l.counts["denied again from memory"] += int(x.cache.Stats().Repeated)
			}
		}
		out = report{w.sum(), w.lines, r.violations, len(l.done), r.decisions, f.counts, l.counts, w.now()}
		w.stop()
		for _, x := range l.nodes {
			x.close()
		}
		r.main.ref.Close()
		if r.losing != nil {
			r.losing.ref.Close()
		}
	})
	return out
}

// single makes goroutines run one at a time, so that the order in which they become runnable
// is that in which they run.
func single(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestSimulation runs seeds and checks every oracle.
func TestSimulation(t *testing.T) {
	single(t)
	if *seed != 0 {
		r := simulate(t, *seed, "", true)
		for _, line := range r.lines {
			fmt.Println(line)
		}
		fmt.Printf("seed %d: hash %s, %d requests, %d decisions of the script, %d violations\n", *seed, r.hash, r.requests, r.decisions, len(r.violations))
		for _, v := range r.violations {
			t.Error(v)
		}
		return
	}
	began := time.Now()
	faults, outcomes := map[string]int{}, map[string]int{}
	requests, decisions, bad, virtual := 0, 0, 0, time.Duration(0)
	for s := *first; s < *first+uint64(*seeds); s++ {
		r := simulate(t, s, "", false)
		requests, decisions, virtual = requests+r.requests, decisions+r.decisions, virtual+r.virtual
		add(faults, r.faults)
		add(outcomes, r.outcomes)
		for i, v := range r.violations {
			if i == 0 {
				bad++
			}
			if i < 3 {
				t.Errorf("seed %d: %s (make simulate SEED=%d)", s, v, s)
			}
		}
		if bad >= 10 {
			t.Fatal("10 seeds failed: stop")
		}
	}
	t.Logf("%d seeds, %v of virtual time in %v: %d requests, %d decisions of the script, %d seeds with violations",
		*seeds, virtual.Round(time.Second), time.Since(began).Round(time.Millisecond), requests, decisions, bad)
	t.Logf("requests: %s", table(outcomes))
	t.Logf("faults: %s", table(faults))
}

func add(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

func table(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, "; ")
}

// TestSeedReproduces runs seeds twice: the logs of events are the same.
func TestSeedReproduces(t *testing.T) {
	single(t)
	for s := range uint64(*twice) {
		a, b := simulate(t, 1000+s, "", true), simulate(t, 1000+s, "", true)
		if a.hash == b.hash {
			continue
		}
		for i := range min(len(a.lines), len(b.lines)) {
			if a.lines[i] != b.lines[i] {
				t.Errorf("seed %d: event %d differs:\n%s\n%s", 1000+s, i, a.lines[i], b.lines[i])
				break
			}
		}
	}
}

// TestPlantedBugs checks that the oracles find bugs of the protocol. Each is switched on in the
// model of the client or the server, below redisstore.Conn.
func TestPlantedBugs(t *testing.T) {
	single(t)
	for _, p := range []struct {
		bug    string
		first  uint64 // the first seed to try
		oracle string // that has to find it
		what   string
	}{
		{"resend", 3, "once: ", "a client repeats commands whose connection was reset"},
		{"noscript", 2, "once: ", "NOSCRIPT is reported after the script ran, so the store runs it again"},
		{"resend refund", 49, "once: ", "a call that returns charges runs twice"},
		{"drop refund", 2, "all or none: ", "charges are not returned when another slot denies"},
		{"late reply", 2, "replies: ", "a late reply is matched with the next command"},
		{"forget usage", 4, "exact: ", "a server ignores the former limits of a key"},
		{"two primaries", 2, "exact: ", "nodes continue with the former primary after a partition"},
	} {
		found := false
		for s := p.first; s < p.first+60 && !found; s++ {
			for _, v := range simulate(t, s, p.bug, false).violations {
				if found = strings.HasPrefix(v, p.oracle); found {
					t.Logf("%s: found by seed %d: %s", p.what, s, v)
					if r := simulate(t, s, "", false); len(r.violations) > 0 {
						t.Errorf("seed %d without %q: %s", s, p.bug, r.violations[0])
					}
					break
				}
			}
		}
		if !found {
			t.Errorf("%s: no seed of 60 finds it", p.what)
		}
	}
}
