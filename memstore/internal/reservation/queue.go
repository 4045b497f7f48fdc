// Package reservation keeps reservations until their deadlines, found by name and by
// state, without pointers.
package reservation

import (
	"iter"
	"math"
)

// A Record is a reservation: n tokens charged at an instant, to be settled before its
// deadline. Settled or not it stays until then, so that a repeated request changes
// nothing.
type Record struct {
	Name
	Limit    uint32 // the number of its limit, chosen by the owner
	Place    uint8  // of its tokens, chosen by the owner
	Settled  bool
	Void     bool // its state was deleted: it stays until its deadline, unused
	N        int64
	Actual   int64 // what it was settled at
	At       int64
	Deadline int64

	prev, next  uint32 // of the same state, as indexes plus one
	left, right uint32 // of the tree of its state while it is open, likewise
}

// A Name identifies a reservation, by the hash of its state and of its id.
type Name struct{ State, ID uint64 }

// A Queue orders reservations by deadline, at which they leave it. The zero Queue is
// empty. It is not safe for concurrent use.
type Queue struct {
	list  []Record
	empty []uint32          // unused places in list
	heap  []uint32          // by deadline
	byID  map[Name]uint32   // those that are not void
	first map[uint64]uint32 // of each state, as an index plus one
	open  map[uint64]uint32 // the root of the tree of each state, likewise
}

// Find returns the reservation of a name, or nil.
func (q *Queue) Find(id Name) *Record {
	if i, ok := q.byID[id]; ok {
		return &q.list[i]
	}
	return nil
}

// Any reports whether a state has reservations, settled or not.
func (q *Queue) Any(state uint64) bool { return len(q.first) > 0 && q.first[state] != 0 }

// State returns the reservations of a state, in any order.
func (q *Queue) State(state uint64) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for at := q.first[state]; at != 0; at = q.list[at-1].next {
			if !yield(&q.list[at-1]) {
				return
			}
		}
	}
}

// Due returns the earliest deadline, or the largest integer.
func (q *Queue) Due() int64 {
	if len(q.heap) == 0 {
		return math.MaxInt64
	}
	return q.list[q.heap[0]].Deadline
}

// All returns the reservations that are not void, in any order.
func (q *Queue) All() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, i := range q.heap {
			if h := &q.list[i]; !h.Void && !yield(h) {
				return
			}
		}
	}
}

// Add adds a reservation whose name is not in the queue.
func (q *Queue) Add(x Record) {
	if q.byID == nil {
		q.byID, q.first, q.open = map[Name]uint32{}, map[uint64]uint32{}, map[uint64]uint32{}
	}
	var i uint32
	if last := len(q.empty) - 1; last >= 0 {
		i, q.empty = q.empty[last], q.empty[:last]
	} else {
		i = uint32(len(q.list))
		q.list = append(q.list, Record{})
	}
	x.prev, x.next, x.left, x.right = 0, q.first[x.State], 0, 0
	if x.next != 0 {
		q.list[x.next-1].prev = i + 1
	}
	q.list[i], q.byID[x.Name], q.first[x.State] = x, i, i+1
	if !x.Settled {
		q.open[x.State] = q.insert(q.open[x.State], i+1)
	}
	q.push(i)
}

// Forget makes the reservations of a state void.
func (q *Queue) Forget(state uint64) {
	for at := q.first[state]; at != 0; {
		x := &q.list[at-1]
		at = x.next
		delete(q.byID, x.Name)
		x.Void, x.prev, x.next = true, 0, 0
	}
	delete(q.first, state)
	delete(q.open, state)
}

// Settle settles the reservation of a name, which must exist, at actual tokens.
func (q *Queue) Settle(id Name, actual int64) {
	i := q.byID[id]
	x := &q.list[i]
	if !x.Settled {
		q.shut(i)
	}
	x.Settled, x.Actual = true, actual
}

// Pop removes the reservation with the earliest deadline, and returns it.
func (q *Queue) Pop() Record {
	i := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	q.down(0)
	x := q.list[i]
	if !x.Void {
		if !x.Settled {
			q.shut(i)
		}
		q.unlink(&x)
		delete(q.byID, x.Name)
	}
	q.empty = append(q.empty, i)
	if last == 0 {
		*q = Queue{}
	}
	return x
}

// unlink removes x from the list of its state.
func (q *Queue) unlink(x *Record) {
	switch {
	case x.prev != 0:
		q.list[x.prev-1].next = x.next
	case x.next != 0:
		q.first[x.State] = x.next
	default:
		delete(q.first, x.State)
	}
	if x.next != 0 {
		q.list[x.next-1].prev = x.prev
	}
}

func (q *Queue) before(a, b uint32) bool {
	x, y := &q.list[a], &q.list[b]
	return x.Deadline < y.Deadline || x.Deadline == y.Deadline && a < b
}

func (q *Queue) push(i uint32) {
	q.heap = append(q.heap, i)
	for c := len(q.heap) - 1; c > 0; {
		p := (c - 1) / 2
		if !q.before(q.heap[c], q.heap[p]) {
			return
		}
		q.heap[c], q.heap[p] = q.heap[p], q.heap[c]
		c = p
	}
}

func (q *Queue) down(p int) {
	for {
		c := 2*p + 1
		if c >= len(q.heap) {
			return
		}
		if r := c + 1; r < len(q.heap) && q.before(q.heap[r], q.heap[c]) {
			c = r
		}
		if !q.before(q.heap[c], q.heap[p]) {
			return
		}
		q.heap[c], q.heap[p] = q.heap[p], q.heap[c]
		p = c
	}
}
