// Package line lets those who wait for the same key do so one behind the other.
package waitqueue

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// A Room is those who wait, in a queue for each key. Its zero value is a room for nobody.
type Queue struct {
	Max int // how many may wait at a time; not to be changed once someone does

	mu     sync.Mutex
	size   int                   // guarded by mu, as the queues
	queues map[string]*list.List // of *Turn; none is empty
}

// A Turn is a place in a queue.
type Waiter struct {
	Key   string
	come  chan struct{} // closed when nobody is before it any more
	place *list.Element
}

// Awaited reports whether somebody waits for key.
func (m *Queue) HasWaiters(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queues[key] != nil
}

// Enter is a place at the end of the queue of key, or nil if the room is full.
func (m *Queue) Enter(key string) *Waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size >= m.Max {
		return nil
	}
	if m.queues == nil {
		m.queues = map[string]*list.List{}
	}
	q := m.queues[key]
	if q == nil {
		q = list.New()
		m.queues[key] = q
	}
	m.size++
	t := &Waiter{Key: key, come: make(chan struct{})}
	if t.place = q.PushBack(t); q.Len() == 1 {
		close(t.come)
	}
	return t
}

// Leave gives a place up, wherever it is, and calls the one behind it if it was first.
// A nil place is none.
func (m *Queue) Leave(t *Waiter) {
	if t == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size--
	q := m.queues[t.Key]
	first := q.Front() == t.place
	q.Remove(t.place)
	switch next := q.Front(); {
	case next == nil:
		delete(m.queues, t.Key)
	case first:
		close(next.Value.(*Waiter).come)
	}
}

// Await waits for the turn of t, and reports whether it came before until; a zero until
// is for ever. An error is the cause of the end of ctx.
func (t *Waiter) Wait(ctx context.Context, until time.Time) (bool, error) {
	select {
	case <-t.come:
		return true, nil
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return false, nil
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
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

// Sleep waits for d, or until ctx ends and then returns the cause. What is over already
// is not waited for, whatever ctx is.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
