package transport

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// A room is the requests that wait, in a queue for each key.
type room struct {
	most int

	mu     sync.Mutex
	size   int                   // guarded by mu, as the queues
	queues map[string]*list.List // of *turn; none is empty
}

// A turn is the place of one request in a queue.
type turn struct {
	key   string
	come  chan struct{} // closed when nobody is before it any more
	place *list.Element
}

// awaited reports whether somebody waits for key.
func (m *room) awaited(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queues[key] != nil
}

// enter is a place at the end of the queue of key, or nil if the room is full.
func (m *room) enter(key string) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size >= m.most {
		return nil
	}
	q := m.queues[key]
	if q == nil {
		q = list.New()
		m.queues[key] = q
	}
	m.size++
	t := &turn{key: key, come: make(chan struct{})}
	if t.place = q.PushBack(t); q.Len() == 1 {
		close(t.come)
	}
	return t
}

// leave gives a place up, wherever it is, and calls the one behind it if it was first.
// A nil place is none.
func (m *room) leave(t *turn) {
	if t == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size--
	q := m.queues[t.key]
	first := q.Front() == t.place
	q.Remove(t.place)
	switch next := q.Front(); {
	case next == nil:
		delete(m.queues, t.key)
	case first:
		close(next.Value.(*turn).come)
	}
}

// await waits for the turn of t, and reports whether it came before until; a zero until
// is for ever. An error is the cause of the end of ctx.
func (t *turn) await(ctx context.Context, until time.Time) (bool, error) {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.come:
		return true, nil
	default:
	}
	select {
	case <-t.come:
		return true, nil
	case <-late:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// sleep waits for d, or until ctx ends and then returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
