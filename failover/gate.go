package failover

import (
	"container/list"
	"time"
)

// A gate bounds the calls in progress. Beyond max, callers wait: those that settle an
// admitted request first and in order, then the newest. Under a load that lasts, the newest
// get a decision in time, and the oldest, which have waited too long, are rejected. In the
// order of arrival all would be late. All methods require the mutex of the Store.
type gate struct {
	max, maxQueue int
	inProgress    int
	settling      list.List // of *waiter, the oldest first
	asking        list.List // of *waiter, the oldest first
}

// A waiter is a caller that waits for its call.
type waiter struct {
	ready chan error // receives nil when it may call
	since time.Time
	in    *list.List
	at    *list.Element // nil after the wait
}

// enter starts a call, unless there are max.
func (g *gate) enter() bool {
	if g.inProgress >= g.max {
		return false
	}
	g.inProgress++
	return true
}

// queue returns the waiters of one kind.
func (g *gate) queue(settle bool) *list.List {
	if settle {
		return &g.settling
	}
	return &g.asking
}

// full reports whether the queue of one kind is full.
func (g *gate) full(settle bool) bool { return g.queue(settle).Len() >= g.maxQueue }

// evict ends the wait of the oldest waiter of one kind.
func (g *gate) evict(settle bool, err error) {
	g.finish(g.queue(settle).Front().Value.(*waiter), err)
}

// wait adds a waiter.
func (g *gate) wait(settle bool) *waiter {
	w := &waiter{ready: make(chan error, 1), since: time.Now(), in: g.queue(settle)}
	w.at = w.in.PushBack(w)
	return w
}

// leave ends a call, and starts that of a waiter.
func (g *gate) leave() {
	switch {
	case g.settling.Len() > 0:
		g.finish(g.settling.Front().Value.(*waiter), nil)
	case g.asking.Len() > 0:
		g.finish(g.asking.Back().Value.(*waiter), nil)
	default:
		g.inProgress--
	}
}

// finish ends the wait of w. It reports false if it has ended.
func (g *gate) finish(w *waiter, err error) bool {
	if w.at == nil {
		return false
	}
	w.in.Remove(w.at)
	w.at = nil
	w.ready <- err
	return true
}

// expire ends the waits that began before a time, and returns their number. A request that
// settles another waits for as long as its caller does.
func (g *gate) expire(before time.Time, err error) (n int) {
	for e := g.asking.Front(); e != nil && e.Value.(*waiter).since.Before(before); e = g.asking.Front() {
		g.finish(e.Value.(*waiter), err)
		n++
	}
	return n
}

// flush ends all waits, because the breaker opened.
func (g *gate) flush(err error) {
	for _, in := range []*list.List{&g.settling, &g.asking} {
		for e := in.Front(); e != nil; e = in.Front() {
			g.finish(e.Value.(*waiter), err)
		}
	}
}

// queued returns the number of waiters.
func (g *gate) queued() int { return g.settling.Len() + g.asking.Len() }
