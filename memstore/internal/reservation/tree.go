package reservation

import "iter"

// The open reservations of a state, which are not settled, form a treap: a search tree by
// deadline, and a heap by random priorities. The hash of the id is the priority. So clients
// cannot unbalance the tree, and its depth is logarithmic.

// Open returns the open reservations of a state in order of their deadlines.
func (q *Queue) Open(state uint64) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		if len(q.open) > 0 {
			q.walk(q.open[state], yield)
		}
	}
}

// walk yields the records of the tree at t, and reports whether to continue.
func (q *Queue) walk(t uint32, yield func(*Record) bool) bool {
	if t == 0 {
		return true
	}
	x := &q.list[t-1]
	return q.walk(x.left, yield) && yield(x) && q.walk(x.right, yield)
}

// shut removes the record at index i from the tree of its state.
func (q *Queue) shut(i uint32) {
	state := q.list[i].State
	if root := q.remove(q.open[state], i+1); root != 0 {
		q.open[state] = root
	} else {
		delete(q.open, state)
	}
}

// insert returns the tree at t with x.
func (q *Queue) insert(t, x uint32) uint32 {
	if t == 0 {
		return x
	}
	node := &q.list[t-1]
	switch {
	case q.list[x-1].ID > node.ID:
		n := &q.list[x-1]
		n.left, n.right = q.split(t, x)
		return x
	case q.before(x-1, t-1):
		node.left = q.insert(node.left, x)
	default:
		node.right = q.insert(node.right, x)
	}
	return t
}

// split returns the parts of the tree at t before and after x.
func (q *Queue) split(t, x uint32) (before, after uint32) {
	if t == 0 {
		return 0, 0
	}
	node := &q.list[t-1]
	if q.before(t-1, x-1) {
		node.right, after = q.split(node.right, x)
		return t, after
	}
	before, node.left = q.split(node.left, x)
	return before, t
}

// remove returns the tree at t without x, which is in it.
func (q *Queue) remove(t, x uint32) uint32 {
	node := &q.list[t-1]
	switch {
	case t == x:
		return q.merge(node.left, node.right)
	case q.before(x-1, t-1):
		node.left = q.remove(node.left, x)
	default:
		node.right = q.remove(node.right, x)
	}
	return t
}

// merge returns one tree of two, of which a comes before b.
func (q *Queue) merge(a, b uint32) uint32 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	x, y := &q.list[a-1], &q.list[b-1]
	if x.ID > y.ID {
		x.right = q.merge(x.right, b)
		return a
	}
	y.left = q.merge(a, y.left)
	return b
}
