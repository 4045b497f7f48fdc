//go:build !race

package share

import (
	"slices"
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

// TestFormerWindowGivenBackAfterTheRead lets a process learn that its limit is no longer in force, after a window
// has begun that it has used.
func TestFormerWindowGivenBackAfterTheRead(t *testing.T) {
	for _, limits := range [][2]string{
		{"5001/s fixed_window anchor epoch", "5000/s fixed_window anchor epoch"},
		{"3001/s sliding_window segments 10", "3000/s sliding_window segments 10"},
		{"5001/s sliding_window segments 10", "5000/s fixed_window anchor epoch"}, // not comparable
	} {
		t.Run(limits[0], func(t *testing.T) {
			w, _ := lone(t, limits[0], 2)
			n, other := w.nodes[0], w.nodes[1]
			other.configure(limits[1])
			w.all(t, other)
			second := w.ledgerTime() / 1_000_000
			w.now += 3_000_000 - w.ledgerTime()%1_000_000 - 100_000
			used := int64(0)
			w.slow(200_000, func() {
				var d weir.Decision
				n.clock.adjust(w.ledgerTime(), n.clock.now(), n.clock.now())
				for n.entry.decideAlone(n.request(weir.Take, 1), n.clock.now(), &d) && d.OK {
					used++
				}
			})
			n.exchange(&op{entry: n.entry})
			got := w.all(t, other)
			if most := w.limit.Capacity(); used < most/2 || used+got > most || w.ledgerTime()/1_000_000 != second+3 {
				t.Errorf("%d tokens after %d of the former share, want at most %d together", got, used, most)
			}
		})
	}
}

// TestReclaimLosesConflict lets a process take back the share of another one, and lose the swap. It does so again at
// once, without another lease.
func TestReclaimLosesConflict(t *testing.T) {
	w, _ := lone(t, simulated[0], 2)
	killed, n := w.nodes[0].entry, w.nodes[1]
	content := func() (r row) {
		if err := r.decode(w.ledger.rows[killed.name].Data); err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.all(t, n)
	if r := content(); r.find(killed.id) == nil {
		t.Fatalf("row = %+v, want the share of the process that was killed", r)
	}
	w.now += n.c.lease * 11 / 10
	written := func() { // another process writes the row
		row := w.ledger.rows[killed.name]
		row.Version++
		w.ledger.rows[killed.name] = row
	}
	w.slow(0, func() { w.slow(0, written) }) // after the read, before the swap
	w.all(t, n)
	if r := content(); r.find(killed.id) != nil || n.c.conflicts.Load() != 1 {
		t.Errorf("row = %+v after %d conflicts, want one and no share", r, n.c.conflicts.Load())
	}
}

// TestChargeAfterConflict charges a limit that admits nothing yet, because a share of a former one is left. The swap
// loses a conflict with the return of that share, and then the charge is effective: it is no error.
func TestChargeAfterConflict(t *testing.T) {
	w, _ := lone(t, "3000/s sliding_window", 2)
	former, n := w.nodes[0].entry, w.nodes[1]
	n.configure("1000/s burst 200")
	w.all(t, n)
	o := &op{entry: n.entry, r: n.request(weir.Charge, 10)}
	n.entry.demand = float64(n.d.Whole.Rate) // so the row is to list it
	returned := func() {
		stored := w.ledger.rows[former.name]
		var r row
		if err := r.decode(stored.Data); err != nil || !r.closed || r.find(former.id) == nil {
			t.Fatalf("row = %+v, %v, want a former share", r, err)
		}
		now, in, err := r.open(n.d, w.ledgerTime(), true)
		if err != nil {
			t.Fatal(err)
		}
		r.holders = slices.DeleteFunc(r.holders, func(h holder) bool { return h.id == former.id })
		s, err := r.swap("key", former.name, stored.Version, in, now)
		if err != nil {
			t.Fatal(err)
		}
		stored.Version, stored.Data = stored.Version+1, s.Data
		w.ledger.rows[former.name] = stored
	}
	w.slow(0, func() { w.slow(0, returned) }) // after the read, before the swap
	n.exchange(o)
	if o.Err != nil || !o.d.OK || n.c.conflicts.Load() != 1 {
		t.Errorf("charge = %+v, %v after %d conflicts, want it after one", o.d, o.Err, n.c.conflicts.Load())
	}
}
