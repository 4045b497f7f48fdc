//go:build !race

package regions_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/regions"
)

// The simulation runs regions with several processes each, in virtual time: the real stores, on ledgers
// whose messages are late, lost or repeated, and whose clocks differ. The oracle replays all admissions
// through one limit.

var simulations = flag.Uint64("regions.runs", 1, "runs of each limit")

// A simLedger is a ledger with a clock of its own.
type simLedger struct {
	share.Ledger
	base  int64       // µs
	drift float64     // of its rate
	calm  atomic.Bool // loses and delays no message
}

func newSimLedger(start time.Time, base time.Duration, drift float64) *simLedger {
	l := &simLedger{base: start.Add(base).UnixMicro(), drift: drift}
	l.Ledger = share.NewMemory(func() time.Time {
		us := time.Since(start).Microseconds()
		return time.UnixMicro(l.base + us + int64(float64(us)*drift))
	})
	return l
}

// elapsed returns the true time from the start to an instant of the ledger, rounded up to µs.
func (l *simLedger) elapsed(at time.Time) int64 {
	return int64(float64(at.UnixMicro()-l.base)/(1+l.drift)) + 2
}

// A link is the way of a process to a ledger.
type link struct {
	to  *simLedger
	w   *simWorld
	far time.Duration
	cut *atomic.Bool // no message arrives
}

var errLost = fmt.Errorf("link: %w: lost", weir.ErrUnavailable)

// message delivers a message, and reports whether its reply arrives.
func (l *link) message(ctx context.Context, run func()) error {
	loss := func() bool { return l.cut.Load() || l.w.float() < 0.01 && !l.to.calm.Load() }
	delay := func() {
		d := l.far + time.Duration(100+l.w.float()*900)*time.Microsecond
		if l.w.float() < 0.005 && !l.to.calm.Load() {
			d += time.Duration(l.w.float() * float64(3*time.Second))
		}
		<-time.After(d)
	}
	lost := loss()
	if !lost {
		delay()
		run()
		if l.w.float() < 0.01 {
			go func() {
				delay()
				run() // it arrives twice
			}()
		}
		delay()
		lost = loss()
	}
	if lost {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return errLost
	}
	return nil
}

// Load implements [share.Ledger].
func (l *link) Load(ctx context.Context, names []string, rows []share.Stored) (now time.Time, err error) {
	got, at := make([]share.Stored, len(rows)), time.Time{}
	var once sync.Once
	err = l.message(ctx, func() {
		once.Do(func() { at, _ = l.to.Load(context.Background(), names, got) })
	})
	if err != nil {
		return now, err
	}
	copy(rows, got)
	return at, nil
}

// Swap implements [share.Ledger].
func (l *link) Swap(ctx context.Context, swaps []share.Swap) error {
	var mu sync.Mutex
	done := make([]bool, len(swaps))
	own := slices.Clone(swaps)
	for i := range own {
		own[i].Data = slices.Clone(own[i].Data)
	}
	err := l.message(ctx, func() {
		again := slices.Clone(own)
		_ = l.to.Swap(context.Background(), again) // memory always replies
		mu.Lock()
		defer mu.Unlock()
		for i := range again {
			done[i] = done[i] || again[i].Done
		}
	})
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range swaps {
		swaps[i].Done = done[i]
	}
	return nil
}

// An admitted is an admission at a true instant, in µs since the start, or at a label.
type admitted struct{ at, n int64 }

type simWorld struct {
	start  time.Time
	limit  weir.Limit
	labels bool
	global *simLedger

	mu   sync.Mutex
	rand *rand.Rand
	all  []admitted
}

func (w *simWorld) float() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.Float64()
}

// A recorder records the admissions of a store on a ledger.
type recorder struct {
	weir.Store
	w        *simWorld
	to       *simLedger
	admitted *atomic.Int64
}

// Do implements [weir.Store].
func (r *recorder) Do(ctx context.Context, q weir.Request) (weir.Decision, error) {
	before := time.Now()
	d, err := r.Store.Do(ctx, q)
	if err != nil || !d.OK || q.Verb > weir.TakeUpTo || d.Granted == 0 {
		return d, err
	}
	at := time.Since(r.w.start).Microseconds()
	switch {
	case r.w.labels:
		at = d.At.UnixMicro()
	case time.Now().After(before): // by the ledger
		at = r.to.elapsed(d.At)
	}
	r.admitted.Add(d.Granted)
	r.w.mu.Lock()
	r.w.all = append(r.w.all, admitted{at, d.Granted})
	r.w.mu.Unlock()
	return d, nil
}

// A simRegion has a ledger and processes.
type simRegion struct {
	w        *simWorld
	c        regions.Config
	own      *simLedger
	cut      atomic.Bool // from the global ledger
	byOwn    atomic.Int64
	byRest   atomic.Int64
	demand   atomic.Int64 // requests per second of a process
	inFlight atomic.Int64
	ending   sync.WaitGroup
}

// process runs a process of the region. The returned function kills it: its messages and requests
// end, and it returns no share.
func (g *simRegion) process(t *testing.T) (kill func()) {
	dead := new(atomic.Bool)
	stores := make([]*share.Store, 0, 2)
	open := func(to *simLedger, far time.Duration, cut *atomic.Bool, n *atomic.Int64) weir.Store {
		s, err := share.New(memory(t), &link{to, g.w, far, cut}, share.Config{Lease: 2 * time.Second, Timeout: time.Second})
		if err != nil {
			panic(err)
		}
		stores = append(stores, s)
		return &recorder{s, g.w, to, n}
	}
	cutGlobal := new(atomic.Bool)
	ctx, cancel := context.WithCancel(t.Context())
	g.ending.Go(func() {
		for ctx.Err() == nil { // the region's link, and the process's own death
			cutGlobal.Store(g.cut.Load() || dead.Load())
			<-time.After(10 * time.Millisecond)
		}
		cutGlobal.Store(true)
	})
	store, err := regions.New(open(g.own, 0, dead, &g.byOwn), open(g.w.global, 40*time.Millisecond, cutGlobal, &g.byRest), g.c)
	if err != nil {
		panic(err)
	}
	for range 8 {
		g.ending.Go(func() {
			for ctx.Err() == nil {
				gap := 8 / float64(max(1, g.demand.Load()))
				<-time.After(time.Duration((g.w.float() + 0.5) * gap * float64(time.Second)))
				r := weir.Request{Key: "key", Limit: g.w.limit, N: 1}
				if g.w.float() < 0.2 {
					r.N = 1 + int64(g.w.float()*6)
				}
				if g.w.float() < 0.05 {
					r.Verb = weir.TakeUpTo
				}
				if g.inFlight.Add(1) > 2000 {
					g.inFlight.Add(-1)
					continue
				}
				g.ending.Go(func() {
					_, _ = store.Do(ctx, r)
					g.inFlight.Add(-1)
				})
			}
		})
	}
	return func() {
		dead.Store(true)
		cutGlobal.Store(true)
		cancel()
		g.ending.Go(func() {
			for _, s := range stores {
				_ = s.Close() // its shares are not returned
			}
		})
	}
}

// TestNoExcess simulates three regions with two processes each, with faults, and replays what all admit
// through one limit.
func TestNoExcess(t *testing.T) {
	for i, limit := range []string{
		"1000/s burst 500", "600/s burst 1000 leaky_bucket", "7777/m burst 400",
		"2000/s fixed_window anchor epoch", "1500/s sliding_window segments 10", "1500/s sliding_window segments 4 weighted", "1000/s sliding_log",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			for seed := range *simulations {
				synctest.Test(t, func(t *testing.T) { simulate(t, limit, uint64(i)*1000+seed) })
			}
		})
	}
}

func simulate(t *testing.T, limit string, seed uint64) {
	w := &simWorld{start: time.Now(), limit: weir.MustLimit(limit), rand: rand.New(rand.NewPCG(seed, 9))}
	switch w.limit.Config().(type) {
	case weir.FixedWindow, weir.SlidingWindow:
		w.labels = true
	}
	w.global = newSimLedger(w.start, time.Hour, -490e-6)
	var all []*simRegion
	kills := map[*simRegion][]func(){}
	for i, c := range []regions.Config{{Part: 40, Rest: 30}, {Part: 30, Rest: 30}, {Rest: 30}} {
		base := time.Hour
		if !w.labels {
			base = time.Duration(w.float() * float64(24*time.Hour))
		}
		g := &simRegion{w: w, c: c, own: newSimLedger(w.start, base, []float64{490e-6, -490e-6, 0}[i])}
		all = append(all, g)
		for range 2 {
			kills[g] = append(kills[g], g.process(t))
		}
	}
	perSecond := float64(w.limit.Count()) / w.limit.Period().Seconds()
	for second := range 24 {
		for _, g := range all {
			g.demand.Store(int64(perSecond * w.float()))
			g.cut.Store(w.float() < 0.15)
			if w.float() < 0.15 && second < 17 {
				i := int(w.float() * 2)
				kills[g][i]()
				kills[g][i] = g.process(t)
			}
		}
		if second >= 18 { // the first region is disconnected, and busy
			all[0].cut.Store(true)
			all[0].own.calm.Store(true)
			all[0].demand.Store(int64(perSecond))
		}
		if second == 21 { // for longer than a lease
			all[0].byOwn.Store(0)
			all[0].byRest.Store(0)
		}
		<-time.After(time.Second)
	}
	alone, rest := all[0].byOwn.Load(), all[0].byRest.Load()
	total := all[1].byOwn.Load() + all[1].byRest.Load() + all[2].byRest.Load()
	for _, g := range all {
		for _, kill := range kills[g] {
			kill()
		}
	}
	for _, g := range all {
		g.ending.Wait()
	}
	excess, n := w.replay()
	t.Logf("%s, seed %d: %d admitted, %d by the others; in 3 s a disconnected region %d by its part, %d by the rest; excess %d", limit, seed, n, total, alone, rest, excess)
	if excess != 0 {
		t.Errorf("%d of %d tokens exceed the limit", excess, n)
	}
	if most := 3*perSecond*0.4 + float64(w.limit.Capacity())*0.4 + 1; float64(alone) > most || float64(alone) < perSecond*0.3 {
		t.Errorf("a disconnected region admits %d in 3 s, want about its part and at most %.0f", alone, most)
	}
	if rest != 0 || all[2].byRest.Load() == 0 {
		t.Errorf("the rest admits %d for a disconnected region and %d for the one without a part, want 0 and some", rest, all[2].byRest.Load())
	}
	if float64(n) < perSecond*24*0.5 {
		t.Errorf("%d admitted, want half of the limit", n)
	}
}

// replay replays all admissions through one limit. It returns the tokens that exceed it, and all.
func (w *simWorld) replay() (excess, n int64) {
	slices.SortStableFunc(w.all, func(a, b admitted) int { return cmp.Compare(a.at, b.at) })
	rule := w.limit.Spec().Rule
	var state []int64
	for _, a := range w.all {
		var r algo.Result
		at := a.at
		if !w.labels {
			at += 1_700_000_000_000_000
		}
		state, r = rule.Do(state, algo.Ask{Op: algo.Take, Now: at, N: a.n})
		n += a.n
		if !r.OK {
			excess += a.n
		}
	}
	return excess, n
}
