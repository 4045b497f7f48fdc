package simulate

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// A world is one run. Only the driver, which is the goroutine of run, uses its fields, except
// those guarded by mu.
type world struct {
	rng    *rand.Rand
	start  time.Time
	events events
	seq    int
	digest hash.Hash
	keep   bool // keep the lines of the log
	lines  []string

	mu      sync.Mutex
	gates   []*gate
	trips   []*trip // begun, not yet sent
	wake    chan struct{}
	stopped bool
}

func newWorld(seed uint64, keep bool) *world {
	return &world{
		rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), start: time.Now(), digest: sha256.New(), keep: keep,
		wake: make(chan struct{}, 1),
	}
}

// now returns the virtual time since the start.
func (w *world) now() time.Duration { return time.Since(w.start) }

// logf adds a line to the log of events.
func (w *world) logf(format string, args ...any) {
	line := fmt.Sprintf("%12v ", w.now()) + fmt.Sprintf(format, args...)
	w.digest.Write([]byte(line + "\n"))
	if w.keep {
		w.lines = append(w.lines, line)
	}
}

// sum returns the hash of the log.
func (w *world) sum() string { return hex.EncodeToString(w.digest.Sum(nil))[:16] }

// An event happens at a time.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// spread is the number of ns in which the times of events differ. So no two events are due at
// the same instant, nor two timers that they start for whole µs.
const spread = 1000

// after schedules an event. Its time is rounded to µs; the ns are those of its number.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	at := (w.now() + max(d, time.Microsecond)).Truncate(time.Microsecond) + time.Duration(w.seq%spread)
	heap.Push(&w.events, event{at, w.seq, do})
}

// A gate holds a goroutine of a node until the driver releases it.
type gate struct {
	request int
	label   string
	run     func() // by the driver, before the release; may be nil
	open    chan struct{}
}

// pass stops the calling goroutine until it is its turn.
func (w *world) pass(request int, label string, run func()) {
	g := &gate{request, label, run, make(chan struct{})}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.gates = append(w.gates, g)
	w.mu.Unlock()
	w.signal()
	<-g.open
}

func (w *world) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// release releases the first gate, and reports whether there is one.
func (w *world) release() bool {
	w.mu.Lock()
	if len(w.gates) == 0 {
		w.mu.Unlock()
		return false
	}
	first := 0
	for i, g := range w.gates {
		f := w.gates[first]
		if cmp.Or(cmp.Compare(g.request, f.request), cmp.Compare(g.label, f.label)) < 0 {
			first = i
		}
	}
	g := w.gates[first]
	w.gates = slices.Delete(w.gates, first, first+1)
	w.mu.Unlock()
	if g.run != nil {
		g.run()
	}
	close(g.open)
	return true
}

// begun returns the trips that nodes have begun, in an order that does not depend on
// goroutines.
func (w *world) begun() []*trip {
	w.mu.Lock()
	defer w.mu.Unlock()
	ts := w.trips
	w.trips = nil
	slices.SortStableFunc(ts, func(a, b *trip) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.text(), b.text())) })
	return ts
}

// run takes events until done reports true, or until the next event is later than end. It
// reports whether it was done.
func (w *world) run(end time.Duration, send func(*trip), done func() bool) bool {
	for {
		synctest.Wait()
		if w.release() {
			continue
		}
		if ts := w.begun(); len(ts) > 0 {
			for _, t := range ts {
				send(t)
			}
			continue
		}
		switch {
		case done != nil && done():
			return true
		case done == nil && (len(w.events) == 0 || w.events[0].at > end) || w.now() > end:
			return false
		}
		next := event{at: end + 1, do: func() {}}
		if len(w.events) > 0 && w.events[0].at <= end {
			next = w.events[0]
		}
		if d := next.at - w.now(); d > 0 {
			timer := time.NewTimer(d)
			select {
			case <-timer.C:
			case <-w.wake:
				timer.Stop()
			}
			continue // gates first: a timer of a node may be due before
		}
		if next.seq != 0 {
			heap.Pop(&w.events)
		}
		next.do()
	}
}

// stop releases all gates for good.
func (w *world) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for w.release() {
	}
}

// chance reports true with probability p.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between returns a duration in a range.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1)).Truncate(time.Microsecond)
}

// pick returns an element.
func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }
