//go:build !race

package share

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// lone returns a world of which the first process has a share, without a free token, and the µs until the share
// has all of them again. Only the test moves the time.
func lone(t *testing.T, limit string, nodes int) (w *world, free int64) {
	t.Helper()
	w = newWorld(1, limit, nodes, 0)
	w.ledgerDrift = 0
	for i, n := range w.nodes {
		n.gap = int64(1e6/w.perSecond()) << (40 * i)
		n.configure(limit)
	}
	n := w.nodes[0]
	w.run(5_000_000)
	free = w.rule.Horizon()
	if w.d.Bucket {
		free = int64(float64(w.d.Whole.Size) / w.perSecond() * 1e6)
	}
	w.now += 2 * free
	n.entry.until = 1 << 60
	used := int64(0)
	var d weir.Decision
	for n.entry.decideAlone(n.request(weir.Take, 1), n.clock.now(), &d) && d.OK {
		w.admit(w.reference(), d.At, 1)
		used++
	}
	if used < w.limit.Capacity()*3/4 {
		t.Fatalf("a share of %d tokens, want most of %d", used, w.limit.Capacity())
	}
	return w, free
}

func (n *node) request(verb weir.Verb, tokens int64) *weir.Request {
	return &weir.Request{Verb: verb, Key: "key", Limit: n.limit, N: tokens}
}

// slow makes the next reply of the ledger come µs after the read.
func (w *world) slow(us int64, meanwhile func()) {
	now := w.ledger.now
	w.ledger.now = func() time.Time {
		read := now()
		w.now += us
		w.ledger.now = now
		meanwhile()
		return read
	}
}

// all takes all tokens that a request gets.
func (w *world) all(t *testing.T, n *node) int64 {
	t.Helper()
	o := &op{entry: n.entry, r: n.request(weir.TakeUpTo, n.limit.Capacity())}
	n.exchange(o)
	if o.Err != nil {
		t.Error(o.Err)
	}
	w.admit(o.d.At.UnixMicro(), o.d.At, o.d.Granted)
	return o.d.Granted
}

// TestGivenBackAfterTheRead ends the demand of a process between the read of a row and its reply. In this time the
// tokens that it has used are free again.
func TestGivenBackAfterTheRead(t *testing.T) {
	for _, limit := range simulated {
		t.Run(limit, func(t *testing.T) {
			w, free := lone(t, limit, 1)
			n := w.nodes[0]
			w.now += free * 9 / 10
			w.slow(free/2, func() { n.entry.idle, n.entry.demand = idleLong+1, 0 })
			if got, want := w.all(t, n), w.limit.Capacity(); got < want-1 {
				t.Errorf("%d tokens, want all of %d", got, want)
			}
			w.replay(algo.MaxInstant)
			if w.excess != 0 {
				t.Errorf("%d tokens exceed the limit", w.excess)
			}
		})
	}
}

// TestFormerShareGivenBackAfterTheRead lets a process learn from a row that its limit is no longer in force.
// Between the read and the reply its share refills.
func TestFormerShareGivenBackAfterTheRead(t *testing.T) {
	for _, limits := range [][2]string{{"10000/s burst 2000", "10000/s burst 2001"}, {"100/s burst 300", "6000/m burst 300"}} {
		t.Run(limits[1], func(t *testing.T) {
			w, free := lone(t, limits[0], 2)
			n, other := w.nodes[0], w.nodes[1]
			other.configure(limits[1])
			w.all(t, other)
			w.now += free * 4 / 10
			w.slow(free*4/10, func() {})
			n.exchange(&op{entry: n.entry})
			got, want := w.all(t, other), w.limit.Capacity()*8/10
			if got > want || got < want*9/10 {
				t.Errorf("%d tokens, want what one limit would have got in this time: %d", got, want)
			}
		})
	}
}
