package enforce

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// holds are what a request has reserved until its end: tokens of policies that count by
// the result, which are then settled, and slots of concurrency limits. A slot is renewed
// while the request runs and given back at its end. If the process dies, all of it comes
// free by itself.
type holds struct {
	gate   *Enforcer
	ctx    context.Context // of the request
	a      policy.Attributes
	id     string // of all its reservations
	tokens []hold
	doubts []hold // that a store may have granted, without saying so

	mu    sync.Mutex
	slots []hold
	every time.Duration // between renewals
	timer *time.Timer   // nil before the first slot
	done  bool
}

// A hold is one reservation, or a request that took nothing and is charged later.
type hold struct {
	store   weir.Store
	request weir.Request
	policy  *policy.Policy
	key     string
	shadow  bool
}

// byResult reports whether a policy counts by the result.
func byResult(c *policy.Config) bool {
	return c.Count == policy.CountFailures || c.Count == policy.CountSuccesses || c.Settle != policy.Settle{}
}

// isSlot reports whether a request is about a concurrency limit.
func isSlot(r *weir.Request) bool { return r.Limit.IsConcurrency() }

// prepare turns those requests of asks into reservations whose tokens are known only
// at the end, and those for slots. Of a request that does not go through there is no
// result: what would be counted by it is counted as it is.
func (g *Enforcer) prepare(p *Admission, asks []policy.Charge, admitted bool) {
	for i := range asks {
		settled := false
		if g.settles && admitted {
			c := asks[i].Policy.Config()
			settled = byResult(&c)
		}
		for j := asks[i].From; j < asks[i].To; j++ {
			rq, ttl := &p.q.Requests[j], g.c.SettleTTL
			if isSlot(rq) {
				ttl = min(rq.Limit.Period(), bounds.MaxTTL)
				if rq.N == 0 {
					continue // nothing to hold
				}
			} else if !settled {
				continue
			}
			if p.held == nil {
				p.held = &holds{gate: g, ctx: p.ctx, a: p.a, id: rand.Text()}
			}
			rq.ID, rq.TTL = p.held.id, ttl
			if rq.N > 0 {
				rq.Verb = weir.Reserve // nothing cannot be reserved
			}
		}
	}
}

// keep notes what store has granted to asks.
func (p *Admission) keep(store weir.Store, asks []policy.Charge) {
	h := p.held
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range asks {
		for _, rq := range p.q.Requests[a.From:a.To] {
			if rq.ID == "" {
				continue
			}
			one := hold{store: store, request: rq, policy: a.Policy, key: a.Key, shadow: p.shadow(&a)}
			if !isSlot(&rq) {
				h.tokens = append(h.tokens, one)
				continue
			}
			h.slots = append(h.slots, one)
			if every := max(rq.TTL/3, time.Millisecond); h.every == 0 || every < h.every {
				h.every = every
			}
		}
	}
	switch {
	case len(h.slots) == 0:
	case h.timer == nil:
		h.timer = time.AfterFunc(h.every, h.renew)
	case h.timer.Stop(): // otherwise it renews, and sets itself
		h.timer.Reset(h.every)
	}
}

// doubt notes what store was asked to reserve and did not answer: it may have done so
// after all, and nobody else would give that back before the end of its life.
func (p *Admission) doubt(store weir.Store, asks []policy.Charge) {
	rs, _ := p.of(asks)
	for _, rq := range rs {
		if rq.Verb == weir.Reserve {
			p.held.doubts = append(p.held.doubts, hold{store: store, request: rq})
		}
	}
}

// forget gives back what was not known to be granted. It is asked once: a store that
// is still away has it until the end of its life.
func (h *holds) forget() {
	if len(h.doubts) == 0 {
		return
	}
	ctx, stop := afterwards(h.ctx)
	defer stop()
	for i := range h.doubts {
		if err := h.doubts[i].ask(ctx, weir.Cancel, 0); err != nil && !errors.Is(err, weir.ErrNoReservation) {
			return
		}
	}
}

// renew keeps every slot for another of its lives. A renewal that fails is tried
// again when the next is due.
func (h *holds) renew() {
	h.mu.Lock()
	slots := h.slots
	h.mu.Unlock()
	for i := range slots {
		h.ask(&slots[i], weir.Reserve)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		h.free() // release came while this ran, and left it to do
		return
	}
	h.timer.Reset(h.every)
}

// release gives every slot back.
func (h *holds) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
	if h.timer == nil || h.timer.Stop() {
		h.free()
	}
}

// free gives every slot back. It requires mu.
func (h *holds) free() {
	for i := range h.slots {
		h.ask(&h.slots[i], weir.Cancel)
	}
	h.slots = nil
}

// ask asks about a slot. Nobody waits for an error: a slot that could not be given
// back comes free at the end of its life.
func (h *holds) ask(slot *hold, verb weir.Verb) {
	ctx, stop := afterwards(h.ctx)
	defer stop()
	_ = slot.ask(ctx, verb, slot.request.N)
}

func (h *hold) ask(ctx context.Context, verb weir.Verb, n int64) error {
	r := h.request
	r.Verb, r.N = verb, n
	_, err := h.store.Do(ctx, r)
	return err
}

// settle makes h cost n tokens, also if what it had reserved has gone back.
func (h *hold) settle(ctx context.Context, n int64) error {
	if h.request.Verb == weir.Reserve {
		if err := h.ask(ctx, weir.Commit, n); !errors.Is(err, weir.ErrNoReservation) {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	return h.ask(ctx, weir.Charge, n)
}

// cancel gives everything back.
func (h *holds) cancel() {
	h.release()
	ctx, stop := afterwards(h.ctx)
	defer stop()
	for i := range h.tokens {
		_ = h.tokens[i].settle(ctx, 0) // it goes back by itself
	}
	h.forget()
}

// empty reports whether there is nothing to give back or settle.
func (h *holds) empty() bool { return len(h.tokens)+len(h.slots)+len(h.doubts) == 0 }

// exit gives the slots back and makes the tokens cost what r says.
func (h *holds) exit(r *Result) {
	h.release()
	failed := h.settle(r)
	h.forget()
	if h.gate.c.Observe == nil {
		return
	}
	for _, e := range failed {
		h.gate.c.Observe(h.ctx, h.a, e)
	}
}

// settle makes every token of h cost what r says, and returns what could not be settled.
func (h *holds) settle(r *Result) (failed []Event) {
	if len(h.tokens) == 0 {
		return nil
	}
	ctx, stop := afterwards(h.ctx)
	defer stop()
	for i := range h.tokens {
		t := &h.tokens[i]
		c, cost := t.policy.Config(), t.request.N
		if !r.ClientGone && !counts(&c, r.Status) {
			cost = 0
		} else if n, ok := r.tells(c.Settle); ok {
			cost = n
		}
		err := t.settle(ctx, cost)
		if n := len(failed); err != nil && (n == 0 || failed[n-1].Policy != t.policy) {
			failed = append(failed, Event{Policy: t.policy, Outcome: Unsettled, Shadow: t.shadow, Key: t.key, Cost: cost, Err: err})
		}
	}
	return failed
}

// maxTold is the largest cost that a result can tell, as large as a limit.
const maxTold = 1 << 40

// tells is the number that s asks for.
func (r *Result) tells(s policy.Settle) (n int64, ok bool) {
	if r.CostFromResponse == nil || s == (policy.Settle{}) {
		return 0, false
	}
	n, ok = r.CostFromResponse(s)
	return n, ok && n >= 0 && n <= maxTold
}

// counts reports whether a result counts against a policy.
func counts(c *policy.Config, status int) bool {
	failed := false
	for _, f := range c.Failures {
		failed = failed || f[0] <= status && status <= f[1]
	}
	switch c.Count {
	case policy.CountFailures:
		return failed
	case policy.CountSuccesses:
		return !failed
	}
	return true
}
