package memstore

import "github.com/floodweir/weir"

// A hold is a reservation: n tokens charged at an instant, to be settled before
// its deadline. Settled or not it stays until then, so that asking again changes
// nothing.
type hold struct {
	holdID
	limit    uint32 // among the shard's limits
	settled  bool
	void     bool // its key was forgotten: it only waits to be dropped
	n        int64
	actual   int64 // what it was settled at
	at       int64
	deadline int64

	prev, next uint32 // of the same state, as indexes plus one
}

// A holdID names a reservation: by the hash of its state and that of its id.
type holdID struct{ state, id uint64 }

// holds are the holds of a shard's states, without pointers. The heap orders them
// by deadline, which is the only way they leave. Everything here requires the
// shard's mu.
type holds struct {
	list  []hold
	empty []uint32          // unused places in list
	heap  []uint32          // by deadline
	byID  map[holdID]uint32 // those that are not void
	first map[uint64]uint32 // of each state, as an index plus one
}

// find is the hold of an id, or nil.
func (h *holds) find(id holdID) *hold {
	if i, ok := h.byID[id]; ok {
		return &h.list[i]
	}
	return nil
}

// any reports whether a state has holds, settled or not.
func (h *holds) any(state uint64) bool { return h.first[state] != 0 }

// due is the first deadline.
func (h *holds) due() int64 {
	if len(h.heap) == 0 {
		return never
	}
	return h.list[h.heap[0]].deadline
}

// add keeps a hold whose id is not known.
func (h *holds) add(x hold) {
	if h.byID == nil {
		h.byID, h.first = map[holdID]uint32{}, map[uint64]uint32{}
	}
	var i uint32
	if last := len(h.empty) - 1; last >= 0 {
		i, h.empty = h.empty[last], h.empty[:last]
	} else {
		i = uint32(len(h.list))
		h.list = append(h.list, hold{})
	}
	x.prev, x.next = 0, h.first[x.state]
	if x.next != 0 {
		h.list[x.next-1].prev = i + 1
	}
	h.list[i], h.byID[x.holdID], h.first[x.state] = x, i, i+1
	h.push(i)
}

// forget makes the holds of a state void.
func (h *holds) forget(state uint64) {
	for at := h.first[state]; at != 0; {
		x := &h.list[at-1]
		at = x.next
		delete(h.byID, x.holdID)
		x.void, x.prev, x.next = true, 0, 0
	}
	delete(h.first, state)
}

// pop drops the hold with the first deadline, and returns it.
func (h *holds) pop() hold {
	i := h.heap[0]
	last := len(h.heap) - 1
	h.heap[0] = h.heap[last]
	h.heap = h.heap[:last]
	h.down(0)
	x := h.list[i]
	if !x.void {
		h.unlink(&x)
		delete(h.byID, x.holdID)
	}
	h.empty = append(h.empty, i)
	if last == 0 {
		*h = holds{}
	}
	return x
}

// unlink takes x out of the list of its state.
func (h *holds) unlink(x *hold) {
	switch {
	case x.prev != 0:
		h.list[x.prev-1].next = x.next
	case x.next != 0:
		h.first[x.state] = x.next
	default:
		delete(h.first, x.state)
	}
	if x.next != 0 {
		h.list[x.next-1].prev = x.prev
	}
}

func (h *holds) before(a, b uint32) bool {
	x, y := &h.list[a], &h.list[b]
	return x.deadline < y.deadline || x.deadline == y.deadline && a < b
}

func (h *holds) push(i uint32) {
	h.heap = append(h.heap, i)
	for c := len(h.heap) - 1; c > 0; {
		p := (c - 1) / 2
		if !h.before(h.heap[c], h.heap[p]) {
			return
		}
		h.heap[c], h.heap[p] = h.heap[p], h.heap[c]
		c = p
	}
}

func (h *holds) down(p int) {
	for {
		c := 2*p + 1
		if c >= len(h.heap) {
			return
		}
		if r := c + 1; r < len(h.heap) && h.before(h.heap[r], h.heap[c]) {
			c = r
		}
		if !h.before(h.heap[c], h.heap[p]) {
			return
		}
		h.heap[c], h.heap[p] = h.heap[p], h.heap[c]
		p = c
	}
}

// isConcurrency reports whether l keeps reservations itself, as slots.
func isConcurrency(l weir.Limit) bool { return l.Rule().Name() == "concurrency" }
