package httplimit

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// inTurn is decide for requests that their policies may hold back. Of those that wait
// for one key the first asks the store, and the others queue behind it. A request that
// is denied for another key than the one it waited for queues there, at the end.
func (m *Middleware) inTurn(r *http.Request, in *inquiry, asks []policy.Ask) (Outcome, error) {
	if !m.waits {
		return m.decide(r, in, asks)
	}
	start, ctx := time.Now(), r.Context()
	var t *turn
	defer func() { m.room.leave(t) }()
	by := m.room.awaited(asks)
	if by != nil {
		if t = m.room.enter(by.Key); t == nil {
			return m.pass(r, in, asks, by)
		}
	}
	for {
		if t != nil {
			until := start.Add(by.Policy.Config().OnDenied.Wait)
			if came, err := pause(ctx, t.come, time.Until(until)); err != nil {
				return FailedClosed, err
			} else if !came {
				return m.pass(r, in, asks, by)
			}
		}
		outcome, err := m.decide(r, in, asks)
		if outcome != Denied {
			return outcome, err
		}
		var retry time.Duration
		by, retry = in.denier(asks)
		left := by.Policy.Config().OnDenied.Wait - time.Since(start)
		if left <= 0 || retry > left || retry <= 0 { // 0 does not say when
			return Denied, err
		}
		if t == nil || t.key != by.Key {
			m.room.leave(t)
			if t = m.room.enter(by.Key); t == nil {
				return Denied, err
			}
		}
		if _, gone := pause(ctx, nil, retry); gone != nil {
			return FailedClosed, gone
		}
	}
}

// pass is the decision of a request that does not get its turn: by denies it, whatever
// is left, since that is for those before it.
func (m *Middleware) pass(r *http.Request, in *inquiry, asks []policy.Ask, by *policy.Ask) (Outcome, error) {
	rs, _ := in.of(asks)
	for i := range rs {
		rs[i].Verb, rs[i].ID = weir.Peek, ""
	}
	outcome, err := m.decide(r, in, asks)
	if outcome == Admitted {
		outcome = Denied
		for i := range in.ds[by.From:by.To] {
			in.ds[by.From+i].OK = false
		}
	}
	return outcome, err
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
