package weir

import "sync"

// queues are the callers that wait, by key.
type queues struct {
	most int
	mu   sync.Mutex
	// byKey is guarded by mu.
	byKey map[string]*queue
}

// A queue is the callers that wait for one key, the first of them being served.
type queue struct {
	head, tail *turn
	size       int
}

// A turn is one caller's place in a queue.
type turn struct {
	come       chan struct{} // closed when the turn has come
	prev, next *turn
}

// enter puts the caller at the end of the queue of key, and reports whether it
// is first. It returns nil if the queue is full.
func (q *queues) enter(key string) (t *turn, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey == nil {
		q.byKey = map[string]*queue{}
	}
	w := q.byKey[key]
	if w == nil {
		w = &queue{}
		q.byKey[key] = w
	}
	if w.size >= q.most {
		return nil, false
	}
	t = &turn{come: make(chan struct{}), prev: w.tail}
	if w.tail == nil {
		w.head = t
	} else {
		w.tail.next = t
	}
	w.tail = t
	w.size++
	return t, w.head == t
}

// leave takes a caller out of the queue of key, wherever it stands, and calls
// the one behind it if it was first.
func (q *queues) leave(key string, t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byKey[key]
	first := w.head == t
	if t.prev == nil {
		w.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		w.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	w.size--
	switch {
	case w.head == nil:
		delete(q.byKey, key)
	case first:
		close(w.head.come)
	}
}
