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

// reservations has the reservations of a request until its end: tokens of policies that
// count by the result, and slots of concurrency limits. Tokens are settled, slots are
// renewed and then returned. If the process ends, both expire.
type reservations struct {
	enforcer  *Enforcer
	ctx       context.Context // of the request
	a         policy.Attributes
	id        string // of all reservations
	tokens    []reservation
	uncertain []reservation // reservations without a reply

	mu    sync.Mutex
	slots []reservation
	every time.Duration // between renewals
	timer *time.Timer   // nil before the first slot
	done  bool
}

// A reservation has one request to reserve, or a request of 0 tokens that is charged later.
type reservation struct {
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

// isSlot reports whether a request is for a concurrency limit.
func isSlot(r *weir.Request) bool { return r.Limit.IsConcurrency() }

// prepare turns requests of charges into reservations: those for slots, and those whose
// cost is known at the end. A request that is not admitted has no result, so its charges
// stay as they are.
func (g *Enforcer) prepare(p *Admission, charges []policy.Charge, admitted bool) {
	for i := range charges {
		settled := false
		if g.settles && admitted {
			c := charges[i].Policy.Config()
			settled = byResult(&c)
		}
		for j := charges[i].From; j < charges[i].To; j++ {
			rq, ttl := &p.q.Requests[j], g.c.SettleTTL
			if isSlot(rq) {
				ttl = min(rq.Limit.Period(), bounds.MaxTTL)
				if rq.N == 0 {
					continue // nothing to reserve
				}
			} else if !settled {
				continue
			}
			if p.reserved == nil {
				p.reserved = &reservations{enforcer: g, ctx: p.ctx, a: p.a, id: rand.Text()}
			}
			rq.ID, rq.TTL = p.reserved.id, ttl
			if rq.N > 0 {
				rq.Verb = weir.Reserve // 0 tokens cannot be reserved
			}
		}
	}
}

// record adds the reservations that store made for charges.
func (p *Admission) record(store weir.Store, charges []policy.Charge) {
	h := p.reserved
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range charges {
		for _, rq := range p.q.Requests[a.From:a.To] {
			if rq.ID == "" {
				continue
			}
			one := reservation{store: store, request: rq, policy: a.Policy, key: a.Key, shadow: p.shadow(&a)}
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
	case h.timer.Stop(): // otherwise renew runs and resets the timer
		h.timer.Reset(h.every)
	}
}

// recordUncertain adds the reservations that store may have made without a reply. They
// would otherwise stay until their TTL.
func (p *Admission) recordUncertain(store weir.Store, charges []policy.Charge) {
	rs, _ := p.of(charges)
	for _, rq := range rs {
		if rq.Verb == weir.Reserve {
			p.reserved.uncertain = append(p.reserved.uncertain, reservation{store: store, request: rq})
		}
	}
}

// cancelUncertain cancels the uncertain reservations. After an error the rest expire at
// their TTL.
func (h *reservations) cancelUncertain() {
	if len(h.uncertain) == 0 {
		return
	}
	ctx, stop := settleContext(h.ctx)
	defer stop()
	for i := range h.uncertain {
		if err := h.uncertain[i].ask(ctx, weir.Cancel, 0); err != nil && !errors.Is(err, weir.ErrNoReservation) {
			return
		}
	}
}

// renew extends every slot by its TTL. A renewal that fails is repeated at the next
// interval.
func (h *reservations) renew() {
	h.mu.Lock()
	slots := h.slots
	h.mu.Unlock()
	for i := range slots {
		h.ask(&slots[i], weir.Reserve)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		h.free() // release was called meanwhile
		return
	}
	h.timer.Reset(h.every)
}

// release returns every slot.
func (h *reservations) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
	if h.timer == nil || h.timer.Stop() {
		h.free()
	}
}

// free returns every slot. It requires mu.
func (h *reservations) free() {
	for i := range h.slots {
		h.ask(&h.slots[i], weir.Cancel)
	}
	h.slots = nil
}

// ask sends verb for a slot. Errors are ignored: a slot that is not returned expires.
func (h *reservations) ask(slot *reservation, verb weir.Verb) {
	ctx, stop := settleContext(h.ctx)
	defer stop()
	_ = slot.ask(ctx, verb, slot.request.N)
}

func (h *reservation) ask(ctx context.Context, verb weir.Verb, n int64) error {
	r := h.request
	r.Verb, r.N = verb, n
	_, err := h.store.Do(ctx, r)
	return err
}

// settle charges n tokens for h, even if the reservation has expired.
func (h *reservation) settle(ctx context.Context, n int64) error {
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

// cancel returns all reservations.
func (h *reservations) cancel() {
	h.release()
	ctx, stop := settleContext(h.ctx)
	defer stop()
	for i := range h.tokens {
		_ = h.tokens[i].settle(ctx, 0) // it expires otherwise
	}
	h.cancelUncertain()
}

// empty reports whether there are no reservations.
func (h *reservations) empty() bool { return len(h.tokens)+len(h.slots)+len(h.uncertain) == 0 }

// exit returns the slots and charges the tokens by r.
func (h *reservations) exit(r *Result) {
	h.release()
	failed := h.settle(r)
	h.cancelUncertain()
	if h.enforcer.c.Observe == nil {
		return
	}
	for _, e := range failed {
		h.enforcer.c.Observe(h.ctx, h.a, e)
	}
}

// settle charges every token reservation by r, and returns an Event for each policy that
// could not be settled.
func (h *reservations) settle(r *Result) (failed []Event) {
	if len(h.tokens) == 0 {
		return nil
	}
	ctx, stop := settleContext(h.ctx)
	defer stop()
	for i := range h.tokens {
		t := &h.tokens[i]
		c, cost := t.policy.Config(), t.request.N
		if !r.ClientGone && !counts(&c, r.Status) {
			cost = 0
		} else if n, ok := r.cost(c.Settle); ok {
			cost = n
		}
		err := t.settle(ctx, cost)
		if n := len(failed); err != nil && (n == 0 || failed[n-1].Policy != t.policy) {
			failed = append(failed, Event{Policy: t.policy, Outcome: Unsettled, Shadow: t.shadow, Key: t.key, Cost: cost, Err: err})
		}
	}
	return failed
}

// maxCost is the largest cost of a result, like the largest count of a limit.
const maxCost = 1 << 40

// cost returns the cost that s selects.
func (r *Result) cost(s policy.Settle) (n int64, ok bool) {
	if r.CostFromResponse == nil || s == (policy.Settle{}) {
		return 0, false
	}
	n, ok = r.CostFromResponse(s)
	return n, ok && n >= 0 && n <= maxCost
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
