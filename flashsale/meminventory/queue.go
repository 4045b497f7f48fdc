package meminventory

import (
	"container/heap"
	"math/rand/v2"
)

// queue holds the present waiting users: a tree ordered by rank whose nodes know the size of
// their subtrees, and a heap ordered by the deadlines of presence.
type queue struct {
	root      *userState
	deadlines deadlines
}

// queued is the place of a user in a queue. The tree is a treap: its random priorities keep it
// balanced.
type queued struct {
	left, right *userState
	size        int32
	priority    uint32
	at          int // index in deadlines, plus one; 0 for a user who is not in the queue
}

func (p *userState) subtree() int32 {
	if p == nil {
		return 0
	}
	return p.place.size
}

func (p *userState) resize() {
	p.place.size = 1 + p.place.left.subtree() + p.place.right.subtree()
}

func (q *queue) len() int { return int(q.root.subtree()) }

// split divides a tree into ranks below rank and ranks from it on.
func split(t *userState, rank int64) (below, rest *userState) {
	if t == nil {
		return nil, nil
	}
	if t.rank < rank {
		t.place.right, rest = split(t.place.right, rank)
		t.resize()
		return t, rest
	}
	below, t.place.left = split(t.place.left, rank)
	t.resize()
	return below, t
}

// merge joins two trees; all ranks of a are below those of b.
func merge(a, b *userState) *userState {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.place.priority > b.place.priority:
		a.place.right = merge(a.place.right, b)
		a.resize()
		return a
	}
	b.place.left = merge(a, b.place.left)
	b.resize()
	return b
}

// add inserts p at its rank, which must be free, with its deadline.
func (q *queue) add(p *userState) {
	p.place = queued{size: 1, priority: rand.Uint32()}
	below, rest := split(q.root, p.rank)
	q.root = merge(merge(below, p), rest)
	heap.Push(&q.deadlines, p)
}

// remove removes p, which must be in the queue.
func (q *queue) remove(p *userState) {
	below, rest := split(q.root, p.rank)
	_, above := split(rest, p.rank+1)
	q.root = merge(below, above)
	heap.Remove(&q.deadlines, p.place.at-1)
	p.place = queued{}
}

// delay moves p, which must be in the queue, to the deadline in p.seen.
func (q *queue) delay(p *userState) { heap.Fix(&q.deadlines, p.place.at-1) }

// has reports whether rank is taken.
func (q *queue) has(rank int64) bool {
	t := q.root
	for t != nil && t.rank != rank {
		if rank < t.rank {
			t = t.place.left
		} else {
			t = t.place.right
		}
	}
	return t != nil
}

// ahead returns the number of users before rank.
func (q *queue) ahead(rank int64) int64 {
	n := int32(0)
	for t := q.root; t != nil; {
		if t.rank < rank {
			n += t.place.left.subtree() + 1
			t = t.place.right
		} else {
			t = t.place.left
		}
	}
	return int64(n)
}

// overdue returns a user whose deadline has come, or nil.
func (q *queue) overdue(now int64) *userState {
	if len(q.deadlines) == 0 || q.deadlines[0].seen > now {
		return nil
	}
	return q.deadlines[0]
}

// deadlines is a heap of users, the earliest deadline first. Users know their index.
type deadlines []*userState

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].seen < h[j].seen }
func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place.at, h[j].place.at = i+1, j+1
}
func (h *deadlines) Push(x any) {
	p := x.(*userState)
	*h = append(*h, p)
	p.place.at = len(*h)
}
func (h *deadlines) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
