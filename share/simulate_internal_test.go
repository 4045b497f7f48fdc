//go:build !race

package share

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// The simulation runs processes and a ledger in virtual time, with faults. Its processes run the
// steps of the real exchanges; messages and clocks are simulated. One seed is one run.
//
// The oracle replays all admissions through one limit, at the instants at which they count: a
// decision of a share when it was made, one of the ledger when the row was read. Its time is that
// of the ledger without its steps back. Windows are by the At of decisions.

var (
	simulateFor = flag.Duration("share.simulate", 40*time.Second, "virtual time of each run of the simulation")
	simulateRun = flag.Uint64("share.seed", 0, "seed of the only run; 0 for those from 1 on")
	simulations = flag.Uint64("share.runs", 3, "runs of each limit")
)

type world struct {
	rand   *rand.Rand
	limit  weir.Limit
	d      *parts.Limit
	now    int64 // true time, µs
	events eventHeap
	seq    int64

	demand float64 // of the limit

	ledger      *Memory
	ledgerDrift float64
	ledgerStep  int64 // what was added
	forward     int64 // steps forward

	faults float64 // how many there are, from 0 to 1
	far    int64   // µs that a message takes longer
	nodes  []*node

	// wrote gets every effective write, if it is not nil: of the entry, whether its exchange had ended,
	// and the row before and after.
	wrote func(e *entry, late bool, before, after []byte)

	log      []admission
	flushed  int64
	rule     algo.Rule
	state    []int64
	asked    int64
	admitted int64
	excess   int64
	replayed int64
	errors   int64
	local    int64
}

type admission struct{ at, n int64 }

type event struct {
	at, seq int64
	run     func()
	node    *node // an arrival, if run is nil
	stream  int
}

type eventHeap []event

func (h eventHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0; {
		p := (i - 1) / 2
		if !h.less(i, p) {
			break
		}
		(*h)[i], (*h)[p] = (*h)[p], (*h)[i]
		i = p
	}
}

func (h *eventHeap) pop() event {
	top := (*h)[0]
	n := len(*h) - 1
	(*h)[0] = (*h)[n]
	*h = (*h)[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			break
		}
		(*h)[i], (*h)[c] = (*h)[c], (*h)[i]
		i = c
	}
	return top
}

func (w *world) after(us int64, run func()) {
	w.seq++
	w.events.push(event{at: w.now + max(0, us), seq: w.seq, run: run})
}

// A node is a process. A killed one is replaced by one of the next life.
type node struct {
	w       *world
	limit   weir.Limit
	d       *parts.Limit
	c       *settings
	clock   *clock
	entry   *entry
	drift   float64
	born    int64
	life    int
	queue   []*op
	busy    bool
	gap     int64 // mean µs between arrivals
	cost    int64
	cut     bool // partitioned from the ledger
	waiting int
	stream  int // of arrivals
}

const simTimeout = 1_000_000

func (w *world) ledgerTime() int64 {
	return 1_700_000_000_000_000 + w.now + int64(float64(w.now)*w.ledgerDrift) + w.ledgerStep
}

// reference is the time of the oracle.
func (w *world) reference() int64 {
	return 1_700_000_000_000_000 + w.now + int64(float64(w.now)*w.ledgerDrift) + w.forward
}

// chance reports whether a fault happens that happens once in so many times.
func (w *world) chance(in float64) bool { return w.faults > 0 && w.rand.Float64()*in < w.faults }

func (n *node) start() {
	w := n.w
	c, err := Config{Lease: 3 * time.Second}.normalize()
	if err != nil {
		panic(err)
	}
	n.c = c.settings()
	n.drift = (w.rand.Float64()*2 - 1) * 500e-6
	n.born, n.life = w.now, n.life+1
	base := w.rand.Int64N(1 << 40) // the wall clocks of processes differ
	n.clock = &clock{base: 1 + base, drift: int64(c.Drift), read: func() int64 {
		t := w.now - n.born
		return t + int64(float64(t)*n.drift)
	}}
	n.clock.offset.Store(unknown)
	n.entry = newEntry("key", n.d, 1)
	n.entry.id = w.rand.Uint64()
	n.queue, n.busy, n.cut = nil, false, false
	n.nextTick()
	n.restream()
}

func (n *node) nextTick() {
	life := n.life
	n.w.after(int64(float64(n.c.interval/ticks)*(1-n.drift)), func() {
		if n.life != life {
			return
		}
		if n.entry.tick(n.c, n.clock.now()) {
			n.ask(&op{entry: n.entry})
		}
		n.nextTick()
	})
}

// restream begins another stream of arrivals.
func (n *node) restream() {
	n.stream++
	n.nextArrival()
}

func (n *node) nextArrival() {
	w := n.w
	w.seq++
	w.events.push(event{at: w.now + 1 + int64(w.rand.ExpFloat64()*float64(n.gap)), seq: w.seq, node: n, stream: n.stream})
}

// arrive makes one request.
func (n *node) arrive() {
	w := n.w
	r := weir.Request{Verb: weir.Take, Key: "key", Limit: n.limit, N: 1}
	if n.cost > 1 {
		r.N = 1 + w.rand.Int64N(n.cost)
		if w.rand.IntN(4) == 0 {
			r.Verb = weir.TakeUpTo
		}
	}
	if w.d.Bucket && w.faults > 0 && w.rand.IntN(50) == 0 {
		r.Verb = weir.Return
	}
	w.asked++
	var d weir.Decision
	if n.entry.decide(&r, n.clock.now(), &d) {
		w.local++
		if d.OK {
			w.admit(w.reference(), d.At, tokens(&r, d))
		}
	} else if n.waiting < 100 {
		n.waiting++
		n.ask(&op{entry: n.entry, r: &r})
	}
	n.nextArrival()
}

func (n *node) ask(o *op) {
	n.queue = append(n.queue, o)
	n.send()
}

// send makes a trip with the ops in the queue.
func (n *node) send() {
	if n.busy || len(n.queue) == 0 {
		return
	}
	n.busy = true
	t := newTrip(n.c, n.clock, n.queue)
	t.random = n.w.rand.Int64N
	n.queue = nil
	n.trip(t, n.life)
}

// message delivers a message, unless it is lost. It reports whether the reply arrives in time too.
func (n *node) message(run func(), reply, lost func()) {
	w, life := n.w, n.life
	delay := func() int64 {
		us := w.far + 100 + int64(w.rand.ExpFloat64()*500)
		if w.chance(100) {
			us += w.rand.Int64N(2 * simTimeout)
		}
		return us
	}
	loss := func() bool { return n.cut || w.chance(100) }
	there, back := delay(), delay()
	if n.life == life && !loss() {
		w.after(there, run)
		if w.chance(50) {
			w.after(there+delay(), run) // the message arrives twice
		}
		if there+back < simTimeout && !loss() {
			w.after(there+back, func() {
				if n.life == life {
					reply()
				}
			})
			return
		}
	}
	w.after(simTimeout, func() {
		if n.life == life {
			lost()
		}
	})
}

var errLost = errors.New("lost")

// trip makes one round of a trip.
func (n *node) trip(t *trip, life int) {
	w := n.w
	names := t.names()
	if len(names) == 0 {
		n.busy = false
		n.send()
		return
	}
	rows := make([]Stored, len(names))
	var at time.Time
	read := false
	var readAt int64
	n.message(func() {
		if !read {
			read, readAt = true, w.reference()
			at, _ = w.ledger.Load(context.Background(), names, rows)
		}
	}, func() { n.loaded(t, life, rows, at, nil, readAt) }, func() { n.loaded(t, life, rows, at, errLost, 0) })
}

func (n *node) loaded(t *trip, life int, rows []Stored, at time.Time, err error, readAt int64) {
	n.swap(t, life, t.loaded(rows, at, err), readAt)
}

// swap continues a trip with swaps, by rows that were read at readAt.
func (n *node) swap(t *trip, life int, swaps []Swap, readAt int64) {
	w := n.w
	n.finish(t, readAt)
	if len(swaps) == 0 {
		w.after(t.pause, func() {
			if n.life == life {
				n.trip(t, life)
			}
		})
		return
	}
	copied, e, ended := slices.Clone(swaps), t.writing[0].entry, false
	arrived, foundAt := false, int64(0)
	n.message(func() {
		again := slices.Clone(swaps)
		before := w.ledger.rows[again[0].Name].Data
		if err := w.ledger.Swap(context.Background(), again); err != nil {
			panic(err)
		}
		if !arrived {
			arrived, foundAt = true, w.reference()
			copy(copied, again)
		}
		if again[0].Done && w.wrote != nil {
			w.wrote(e, ended || n.life != life, before, again[0].Data)
		}
	}, func() {
		ended = true
		copy(swaps, copied)
		if !copied[0].Done {
			readAt = foundAt
		}
		n.swap(t, life, t.swapped(nil), readAt)
	}, func() {
		ended = true
		n.swap(t, life, t.swapped(errLost), readAt)
	})
}

// finish counts the requests of exchanges that have ended.
func (n *node) finish(t *trip, readAt int64) {
	for _, x := range t.loading {
		if !x.ended {
			continue
		}
		for _, o := range x.ops {
			if o.r == nil {
				o.entry.endTurn()
				continue
			}
			if o.r.Key == "" {
				continue // counted
			}
			o.r.Key = ""
			n.waiting--
			switch {
			case o.Err != nil:
				n.w.errors++
				if o.r.Verb == weir.Return && readAt > 0 { // it may be effective
					n.w.admit(readAt, o.d.At, tokens(o.r, o.d))
				}
			case o.d.OK:
				n.w.admit(readAt, o.d.At, tokens(o.r, o.d))
			}
		}
	}
}

// tokens returns the tokens of an admitted request; negative if it gives them back.
func tokens(r *weir.Request, d weir.Decision) int64 {
	if r.Verb == weir.Return {
		return -r.N
	}
	return d.Granted
}

func (w *world) admit(at int64, label time.Time, n int64) {
	w.admitted += n
	if w.d.Labels {
		at = label.UnixMicro()
	}
	w.log = append(w.log, admission{at, n})
	if w.now > w.flushed+2*simTimeout && !w.d.Labels {
		w.flushed = w.now
		w.replay(w.reference() - 10*simTimeout)
	}
}

// replay replays the admissions before an instant.
func (w *world) replay(until int64) {
	slices.SortStableFunc(w.log, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	i := 0
	for ; i < len(w.log) && w.log[i].at < until; i++ {
		var r algo.Result
		op, n := algo.Take, w.log[i].n
		if n < 0 {
			op, n = algo.Return, -n
		}
		w.state, r = w.rule.Do(w.state, algo.Ask{Op: op, Now: w.log[i].at, N: n})
		w.replayed++
		if !r.OK {
			w.excess += w.log[i].n
		}
	}
	w.log = w.log[:copy(w.log, w.log[i:])]
}

// run runs the world for so many µs.
func (w *world) run(us int64) {
	for end := w.now + us; ; {
		e := w.events.pop()
		if e.at >= end {
			w.now = end
			w.seq++
			w.events.push(e)
			return
		}
		w.now = e.at
		if e.run != nil {
			e.run()
		} else if e.stream == e.node.stream {
			e.node.arrive()
		}
	}
}

func newWorld(seed uint64, limit string, nodes int, faults float64) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 7)), limit: weir.MustLimit(limit), faults: faults, now: 1}
	var err error
	if w.d, err = parts.Divide(w.limit); err != nil {
		panic(err)
	}
	w.rule = w.limit.Spec().Rule
	w.demand = []float64{0.7, 1.2, 3}[seed%3]
	w.ledgerDrift = (w.rand.Float64()*2 - 1) * 500e-6
	w.ledger = NewMemory(func() time.Time { return time.UnixMicro(w.ledgerTime()) })
	for range nodes {
		n := &node{w: w, limit: w.limit, d: w.d, gap: 1000, cost: 1}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

// perSecond is the rate of a limit, in tokens.
func (w *world) perSecond() float64 { return float64(w.d.Whole.Rate) / float64(w.d.Span) * 1e6 }

// disturb changes the demand and injects faults, once a second.
func (w *world) disturb(steps bool) {
	r := w.rand
	total := w.perSecond() * w.demand * (0.5 + r.Float64())
	for _, n := range w.nodes {
		part := r.Float64() * 2 / float64(len(w.nodes))
		if w.demand < 2 && r.IntN(3) == 0 {
			part = 0.001
		}
		n.cost = 1 + r.Int64N(2)*r.Int64N(6)
		n.gap = max(1, int64(1e6/(total*part/float64(1+n.cost/2)+0.1)))
		n.cut = w.chance(8)
		if w.chance(12) {
			n.start() // it was killed: its requests and messages end
			n.waiting = 0
		}
		n.restream()
	}
	if steps && r.IntN(10) == 0 {
		step := r.Int64N(5_000_000)
		if r.IntN(2) == 0 && !w.d.Labels {
			step = -step
		} else {
			w.forward += step
		}
		w.ledgerStep += step
	}
}

var simulated = []string{
	"10000/s burst 2000",
	"1000/s burst 300 leaky_bucket",
	"7777/m burst 333",
	"5000/s fixed_window anchor epoch",
	"3000/s sliding_window segments 10",
	"3000/s sliding_window segments 4 weighted",
	"1000/s sliding_log",
}

// seeds yields the seeds of so many runs, or that of the only run.
func seeds(runs uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if *simulateRun != 0 {
			yield(*simulateRun)
			return
		}
		for seed := uint64(1); seed <= runs && yield(seed); seed++ {
		}
	}
}

// TestNoExcess simulates every algorithm with faults: what all processes admit, one limit admits.
func TestNoExcess(t *testing.T) {
	for _, limit := range simulated {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(*simulations) {
				w := newWorld(seed, limit, 5, []float64{0.05, 1, 0.3, 0.01}[seed%4])
				if seed%3 == 0 {
					w.far = 40_000
				}
				for range int(simulateFor.Seconds()) {
					w.disturb(seed%2 == 0)
					w.run(1_000_000)
				}
				w.replay(algo.MaxInstant)
				t.Log(w.summary(seed))
				if w.excess != 0 {
					t.Errorf("seed %d: %d of %d tokens exceed the limit", seed, w.excess, w.admitted)
				}
				least := w.asked / 4
				if w.perSecond()*w.demand/float64(len(w.nodes)) < DefaultThreshold {
					least /= 2 // most processes have no share most of the time
				}
				if w.local < least {
					t.Errorf("seed %d: %d of %d requests were decided by shares, want %d", seed, w.local, w.asked, least)
				}
			}
		})
	}
}

func (w *world) summary(seed uint64) string {
	return fmt.Sprintf("%s: seed %d: %d requests, %.1f%% local, %d (%.0f%%) admitted, %d errors, %d excess", w.limit, seed, w.asked, float64(w.local)/float64(w.asked)*100, w.admitted, float64(w.admitted)/w.perSecond()/float64(w.now)*1e8, w.errors, w.excess)
}
