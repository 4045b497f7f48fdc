//go:build !race

package share

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// The transitions of model/shares.pml, which change the row. A write may be several of them.
var rowTransitions = []string{"grant", "give back", "renew", "return", "reclaim", "replace", "write late", "write in time"}

// A traced compares the writes of a simulation with the transitions of the model.
type traced struct {
	w    *world
	seen map[string]int
	errs []string
}

func (c *traced) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Sprintf("%d µs: ", c.w.now)+fmt.Sprintf(format, args...))
}

// write checks an effective write of the entry e of a node. The exchange has ended if it is late.
func (c *traced) write(e *entry, late bool, before, after []byte) {
	var was, is row
	if err := is.decode(after); err != nil {
		c.failf("row: %v", err)
		return
	}
	if len(before) > 0 {
		_ = was.decode(before)
	}
	c.seen[map[bool]string{true: "write late", false: "write in time"}[late]]++
	replaced := was.limit != is.limit && was.limit != ""
	if replaced {
		c.seen["replace"]++
		if is.limit != e.limit.Text {
			c.failf("replace: the limit became %s, the writer has %s", is.limit, e.limit.Text)
		}
	}
	former := false
	for i := range was.holders {
		h := &was.holders[i]
		if h.id == e.id {
			continue
		}
		switch now := is.find(h.id); {
		case now == nil:
			c.seen["reclaim"]++
			c.notUsed(h.id)
		case now.seq != h.seq || !is.closed && (now.part.Size != h.part.Size || now.part != h.part && !replaced):
			c.failf("the write of %x changed %x from %+v to %+v", e.id, h.id, *h, *now)
		case replaced && !now.old:
			c.failf("replace: %x is not of a former limit", h.id)
		default:
			former = former || now.old
		}
	}
	mine, then := is.find(e.id), was.find(e.id)
	switch {
	case mine == nil && then != nil:
		c.seen["return"]++
	case mine == nil:
	case then == nil || mine.part.Rate > then.part.Rate && !then.old:
		if mine.part != (parts.Part{}) {
			c.seen["grant"]++
			if former {
				c.failf("grant: a share of a former limit is left")
			}
		}
	case mine.part.Rate < then.part.Rate:
		c.seen["give back"]++
	default:
		c.seen["renew"]++
	}
	if mine != nil && then != nil && mine.seq <= then.seq {
		c.failf("the sequence number of %x is %d after %d", e.id, mine.seq, then.seq)
	}
	c.whole(&is)
	c.usable(&is)
}

// whole checks that the parts of a row sum to the limit.
func (c *traced) whole(r *row) {
	l, err := weir.ParseLimit(r.limit)
	if err != nil {
		c.failf("limit %q: %v", r.limit, err)
		return
	}
	d, err := parts.Divide(l)
	if err != nil || r.closed {
		return
	}
	sum := r.rest.Part
	for i := range r.holders {
		sum = sum.Plus(r.holders[i].part)
	}
	if sum != d.Whole {
		c.failf("the parts sum to %+v, the limit is %+v", sum, d.Whole)
	}
}

// usable checks that every share that its holder may use is in the row.
func (c *traced) usable(r *row) {
	for _, n := range c.w.nodes {
		e := n.entry
		if !e.live(n.clock.now()) {
			continue
		}
		h := r.find(e.id)
		if h != nil && h.old && r.closed {
			continue // nothing is admitted beside it
		}
		if h == nil {
			c.failf("%x uses %+v, which the row does not have", e.id, e.own.Part)
		} else if more := e.own.Part.Minus(h.part); more.Size > 0 || more.Rate > 0 && !h.old {
			c.failf("%x uses %+v, the row has %+v", e.id, e.own.Part, h.part)
		}
	}
}

// notUsed checks that the holder of a share that is taken back does not use it.
func (c *traced) notUsed(id uint64) {
	for _, n := range c.w.nodes {
		if n.entry.id == id && n.entry.live(n.clock.now()) {
			c.failf("reclaim: %x uses its share", id)
		}
	}
}

// configure restarts a process with another limit of the same name.
func (n *node) configure(limit string) {
	n.limit = weir.MustLimit(limit).Named("api")
	d, err := parts.Divide(n.limit)
	if err != nil {
		panic(err)
	}
	n.d = d
	n.start()
	n.waiting = 0
}

// TestTransitions runs the simulation with faults, and a limit that changes. Every write is one that the
// model has, and after it the assertions of the model hold.
func TestTransitions(t *testing.T) {
	all := map[string]int{}
	for _, limits := range [][2]string{
		{"10000/s burst 2000", "4000/s burst 500"},
		{"5000/s fixed_window anchor epoch", "2000/s fixed_window anchor epoch"},
		{"3000/s sliding_window", "1000/s sliding_window"},
		{"3000/s sliding_window", "1000/s burst 200"},
	} {
		t.Run(limits[0], func(t *testing.T) {
			for seed := range seeds(5) {
				w := newWorld(seed, limits[0], 5, float64(1+seed%5))
				c := &traced{w: w, seen: map[string]int{}}
				w.wrote = c.write
				for _, n := range w.nodes {
					n.configure(limits[0])
				}
				for second := range 60 {
					w.disturb(false)
					if second%5 == 4 { // one process after the other gets the other limit
						round := second / 5
						w.nodes[round%5].configure(limits[(1+round/5)%2])
					}
					w.run(1_000_000)
				}
				if w.replay(algo.MaxInstant); w.excess != 0 && w.d.Comparable(w.nodes[0].d) {
					c.failf("%d of %d tokens exceed the larger limit", w.excess, w.admitted)
				}
				t.Logf("seed %d: %v, excess %d of %d", seed, c.seen, w.excess, w.admitted)
				for _, err := range c.errs[:min(5, len(c.errs))] {
					t.Errorf("seed %d: %s", seed, err)
				}
				for name, n := range c.seen {
					all[name] += n
				}
			}
		})
	}
	t.Logf("%v", all)
	for _, name := range rowTransitions {
		if all[name] == 0 && *simulateRun == 0 { // one run may lack some
			t.Errorf("no transition %q", name)
		}
	}
}
