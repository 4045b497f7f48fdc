package httplimit

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/floodweir/weir"
)

// slots are what a request holds of concurrency limits. A slot is a reservation with
// a life: it is renewed while the request runs and given back at its end. If the
// process dies, it comes free by itself.
type slots struct {
	id    string
	store weir.Store

	mu    sync.Mutex
	held  []weir.Request // what was reserved
	every time.Duration  // between renewals
	timer *time.Timer    // nil before the first slot and after the end
	done  bool
	ctx   context.Context
}

// reserve turns the requests about concurrency limits into reservations under one
// new id. It returns nil if there are none.
func reserve(rs []weir.Request) *slots {
	var s *slots
	for i := range rs {
		if rs[i].Limit.Rule().Name() != string(weir.Concurrency) {
			continue
		}
		if s == nil {
			s = &slots{id: rand.Text()}
		}
		rs[i].Verb, rs[i].ID, rs[i].TTL = weir.Reserve, s.id, min(rs[i].Limit.Config().Period, weir.MaxTTL)
	}
	return s
}

// hold keeps the reservations among rs, all of which were granted, until release.
func (s *slots) hold(ctx context.Context, store weir.Store, rs []weir.Request) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.ctx = store, context.WithoutCancel(ctx)
	for _, r := range rs {
		if r.Verb != weir.Reserve {
			continue
		}
		s.held = append(s.held, r)
		if every := r.TTL / 3; s.every == 0 || every < s.every {
			s.every = max(every, time.Millisecond)
		}
	}
	if s.timer == nil && len(s.held) > 0 {
		s.timer = time.AfterFunc(s.every, s.renew)
	}
}

// renew keeps every slot for another of its lives. A renewal that fails is tried
// again when the next is due.
func (s *slots) renew() {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	for _, r := range held {
		s.ask(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		s.cancel() // release came while this ran, and left it to do
		return
	}
	s.timer.Reset(s.every)
}

// release gives every slot back.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.timer == nil || s.timer.Stop() {
		s.cancel()
	}
}

// cancel gives every slot back. It requires mu.
func (s *slots) cancel() {
	for _, r := range s.held {
		r.Verb, r.N = weir.Cancel, 0
		s.ask(r)
	}
	s.held = nil
}

// ask asks the store, whose error nobody waits for: what could not be given back
// comes free at the end of its life.
func (s *slots) ask(r weir.Request) {
	ctx, stop := context.WithTimeout(s.ctx, time.Second)
	defer stop()
	_, _ = s.store.Do(ctx, r)
}
