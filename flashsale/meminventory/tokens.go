package meminventory

import "container/heap"

// tokens counts the tickets whose admission is valid and unused, in groups that expire at the
// same time.
type tokens struct {
	n      int64
	groups map[int64]*group // by until
	order  groupHeap
}

type group struct {
	until int64 // microseconds
	n     int64
}

// add counts a ticket that expires at until, and returns its group.
func (t *tokens) add(until int64) *group {
	g := t.groups[until]
	if g == nil {
		g = &group{until: until}
		if t.groups == nil {
			t.groups = make(map[int64]*group)
		}
		t.groups[until] = g
		heap.Push(&t.order, g)
	}
	g.n++
	t.n++
	return g
}

// use removes a ticket that was valid at the last call of expire.
func (t *tokens) use(g *group) {
	g.n--
	t.n--
}

// expire removes the groups that have expired at now.
func (t *tokens) expire(now int64) {
	for len(t.order) > 0 && t.order[0].until <= now {
		g := heap.Pop(&t.order).(*group)
		delete(t.groups, g.until)
		t.n -= g.n
	}
}

type groupHeap []*group

func (h groupHeap) Len() int           { return len(h) }
func (h groupHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h groupHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *groupHeap) Push(x any)        { *h = append(*h, x.(*group)) }
func (h *groupHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return g
}
