// Package waitqueue has FIFO queues of callers that wait, and the loop in which they
// ask, sleep and ask again.
package waitqueue

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// A Queue is a FIFO queue of waiters for each key. The zero Queue admits no waiters.
// Its exported fields are set before it is used.
type Queue struct {
	Max   int   // the number of callers that may wait at a time, over all keys
	Clock Clock // the clock of this machine if nil

	mu     sync.Mutex
	size   int                   // guarded by mu, as the queues
	queues map[string]*list.List // of *Waiter; none is empty
}

// A Waiter is a caller in a queue.
type Waiter struct {
	Key   string
	first chan struct{} // closed when it is the first of its queue
	at    *list.Element
}

func (m *Queue) clock() Clock {
	if m.Clock == nil {
		return machine{}
	}
	return m.Clock
}

// Now returns the time of the queue's clock.
func (m *Queue) Now() time.Time { return m.clock().Now() }

// Sleep waits for d by the queue's clock, or until ctx ends, and then returns the cause.
func (m *Queue) Sleep(ctx context.Context, d time.Duration) error { return m.clock().Sleep(ctx, d) }

// Waiting returns the number of callers that wait for key.
func (m *Queue) Waiting(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.queues[key]; q != nil {
		return q.Len()
	}
	return 0
}

// Enter adds a waiter to the end of the queue of key. It returns nil if Max callers
// wait already.
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
	w := &Waiter{Key: key, first: make(chan struct{})}
	if w.at = q.PushBack(w); q.Len() == 1 {
		close(w.first)
	}
	return w
}

// Leave removes a waiter from its queue, and wakes the next one if it was the first.
// It does nothing for nil.
func (m *Queue) Leave(w *Waiter) {
	if w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size--
	q := m.queues[w.Key]
	first := q.Front() == w.at
	q.Remove(w.at)
	switch next := q.Front(); {
	case next == nil:
		delete(m.queues, w.Key)
	case first:
		close(next.Value.(*Waiter).first)
	}
}
