package gate

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// yielded is the outcome of a request that the next gate is to decide about.
const yielded Outcome = ""

// inTurn is decide for requests that their policies may hold back. Of those that wait
// for one key the first asks the store, and the others queue behind it. A request that
// is denied for another key than the one it waited for queues there, at the end. Who is
// gone already asks for nothing, if asking is free. Once g has yielded nothing is asked.
func (g *Gate) inTurn(p *Pass, asks []policy.Ask) (Outcome, error) {
	if !g.c.ChargeGone && p.ctx.Err() != nil {
		return FailedClosed, context.Cause(p.ctx)
	}
	if g.next.Load() != nil {
		return yielded, nil
	}
	if !g.waits {
		return g.decide(p, asks)
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	start := p.since
	var t *turn
	defer func() { g.room.leave(t) }()
	by := g.room.awaited(asks)
	if by != nil {
		if t = g.room.enter(by.Key); t == nil {
			return g.pass(p, asks, by)
		}
	}
	for {
		if t != nil {
			until := start.Add(by.Policy.Config().OnDenied.Wait)
			if came, err := pause(p.ctx, t.come, time.Until(until)); err != nil {
				return FailedClosed, err
			} else if !came {
				return g.pass(p, asks, by)
			}
		}
		if g.next.Load() != nil {
			return yielded, nil
		}
		outcome, err := g.decide(p, asks)
		if outcome != Denied {
			return outcome, err
		}
		var retry time.Duration
		by, retry = p.denier()
		left := by.Policy.Config().OnDenied.Wait - time.Since(start)
		if left <= 0 || retry > left || retry <= 0 { // 0 does not say when
			return Denied, err
		}
		if t == nil || t.key != by.Key {
			g.room.leave(t)
			if t = g.room.enter(by.Key); t == nil {
				return Denied, err
			}
		}
		if _, gone := pause(p.ctx, nil, retry); gone != nil {
			return FailedClosed, gone
		}
	}
}

// pass is the decision of a request that does not get its turn: by denies it, whatever
// is left, since that is for those before it.
func (g *Gate) pass(p *Pass, asks []policy.Ask, by *policy.Ask) (Outcome, error) {
	rs, _ := p.of(asks)
	for i := range rs {
		rs[i].Verb, rs[i].ID = weir.Peek, ""
	}
	outcome, err := g.decide(p, asks)
	if outcome == Admitted {
		outcome = Denied
		for i := range p.ds[by.From:by.To] {
			p.ds[by.From+i].OK = false
		}
	}
	return outcome, err
}

// pause waits for turn, which never comes if it is nil, but no longer than d. It
// reports whether turn came. An error is the cause of the end of ctx.
func pause(ctx context.Context, turn <-chan struct{}, d time.Duration) (came bool, err error) {
	select {
	case <-turn:
		return true, nil
	default:
	}
	if d <= 0 {
		return false, nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-turn:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// A room is the requests that wait, in a queue for each key.
type room struct {
	most int

	mu     sync.Mutex
	size   int
	queues map[string]*list.List // of *turn
}

// A turn is the place of one request in a queue.
type turn struct {
	key   string
	come  chan struct{} // closed when nobody is before it any more
	place *list.Element
}

// awaited is the first of asks for whose key somebody waits, or nil.
func (m *room) awaited(asks []policy.Ask) *policy.Ask {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size == 0 {
		return nil
	}
	for i := range asks {
		if m.queues[asks[i].Key] != nil {
			return &asks[i]
		}
	}
	return nil
}

// enter is a place at the end of the queue of key, or nil if the room is full.
func (m *room) enter(key string) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size >= m.most {
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
	t := &turn{key: key, come: make(chan struct{})}
	if t.place = q.PushBack(t); q.Len() == 1 {
		close(t.come)
	}
	return t
}

// leave gives a place up, wherever it is, and calls the one behind it if it was first.
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
