package enforce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// reservations has the reservations of a request: tokens of policies that count by the
// result, and slots of concurrency limits. Slots are renewed while the request runs. At its
// end, tokens are settled and slots returned. If the process ends, both expire.
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
	armed bool          // timer runs, or renew does
	done  bool
}

// newReservations returns the reservations of a request.
func (e *Enforcer) newReservations(ctx context.Context, a policy.Attributes) *reservations {
	r, ok := e.free.Get().(*reservations)
	if !ok {
		r = &reservations{id: rand.Text()}
	}
	r.enforcer, r.ctx, r.a = e, ctx, a
	return r
}

// recycle makes r, which is empty, and whose id the store does not know, that of a later request.
func (r *reservations) recycle() {
	e := r.enforcer
	if r.armed || !e.prompt {
		return
	}
	r.enforcer, r.ctx, r.a, r.every, r.done = nil, nil, nil, 0, false
	e.free.Put(r)
}

// A reservation is a reservation in the store. With a Take, its tokens are charged already, and the
// difference is settled at the end.
type reservation struct {
	store   weir.Store
	request weir.Request
	policy  *policy.Policy
	key     string
	shadow  bool
	steps   []step        // that Extend charged later
	ended   bool          // a policy in shadow mode has denied a step
	last    weir.Decision // of the store, with the state of the limit
}

// byResult reports whether a policy counts by the result.
func byResult(c *policy.Config) bool {
	return c.Count == policy.CountFailures || c.Count == policy.CountSuccesses || c.Settle != policy.Settle{}
}

// leaseOf returns the TTL of a slot.
func leaseOf(r *weir.Request) time.Duration { return min(r.Limit.Period(), bounds.MaxTTL) }

// isSlot reports whether a request is for a concurrency limit.
func isSlot(r *weir.Request) bool { return r.Limit.IsConcurrency() }

// prepare turns requests of charges into reservations: those for slots, and those whose
// cost is known at the end. A request that is not admitted has no result, so its charges
// stay as they are.
func (e *Enforcer) prepare(p *Admission, charges []policy.Charge, admitted bool) {
	for i := range charges {
		settled, keeps := false, false
		if e.settles && admitted {
			c := charges[i].Policy.Config()
			settled, keeps = byResult(&c), c.Settle.Meter != nil
		}
		for j := charges[i].From; j < charges[i].To; j++ {
			rq, ttl := &p.q.Requests[j], e.c.SettleTTL
			if isSlot(rq) {
				ttl = leaseOf(rq)
				if rq.N == 0 {
					continue // nothing to reserve
				}
			} else if !settled {
				continue
			}
			if p.reserved == nil {
				p.reserved = e.newReservations(p.ctx, p.a)
			}
			rq.ID, rq.TTL = p.reserved.id, ttl
			if rq.N > 0 && !keeps { // 0 tokens cannot be reserved
				rq.Verb = weir.Reserve
			}
		}
	}
}

// record adds the reservations that store made for charges.
func (p *Admission) record(store weir.Store, charges []policy.Charge) {
	reserved := p.reserved
	if reserved == nil {
		return
	}
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	for _, charge := range charges {
		for j := charge.From; j < charge.To; j++ {
			rq := p.q.Requests[j]
			if rq.ID == "" {
				continue
			}
			rq.At = p.ds[j].At
			one := reservation{store: store, request: rq, policy: charge.Policy, key: charge.Key, shadow: p.shadow(&charge), last: p.ds[j]}
			if !isSlot(&rq) {
				reserved.tokens = append(reserved.tokens, one)
				continue
			}
			reserved.addSlot(&one)
		}
	}
	if len(reserved.slots) > 0 {
		reserved.arm()
	}
}

// addSlot adds a slot. It requires mu, and that the caller calls arm then.
func (r *reservations) addSlot(slot *reservation) {
	r.slots = append(r.slots, *slot)
	if every := max(slot.request.TTL/3, time.Millisecond); r.every == 0 || every < r.every {
		r.every = every
	}
}

// arm starts the timer of the renewals. It requires mu.
func (r *reservations) arm() {
	switch {
	case r.timer == nil:
		r.timer, r.armed = time.AfterFunc(r.every, r.renew), true
	case !r.armed:
		r.timer.Reset(r.every)
		r.armed = true
	case r.timer.Stop(): // otherwise renew runs and resets the timer
		r.timer.Reset(r.every)
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
func (r *reservations) cancelUncertain() {
	if len(r.uncertain) == 0 {
		return
	}
	ctx, stop := settleContext(r.ctx, settleTimeout)
	defer stop()
	for i := range r.uncertain {
		if err := r.uncertain[i].send(ctx, weir.Cancel, 0); err != nil && !errors.Is(err, weir.ErrNoReservation) {
			return
		}
	}
}

// renew extends every slot by its TTL. A renewal that fails is repeated at the next
// interval.
func (r *reservations) renew() {
	r.mu.Lock()
	slots := r.slots
	r.mu.Unlock()
	r.sendSlots(slots, weir.Reserve)
	r.mu.Lock()
	if !r.done {
		r.timer.Reset(r.every)
		r.mu.Unlock()
		return
	}
	slots = r.takeSlots() // release was called meanwhile
	r.mu.Unlock()
	r.sendSlots(slots, weir.Cancel)
}

// release returns every slot. It reports whether the store has none of them any more.
func (r *reservations) release() (returned bool) {
	r.mu.Lock()
	r.done = true
	var slots []reservation
	if !r.armed || r.timer.Stop() {
		slots, r.armed = r.takeSlots(), false
	}
	r.mu.Unlock()
	if !r.sendSlots(slots, weir.Cancel) || r.armed {
		return false
	}
	clear(slots)
	r.slots = slots[:0]
	return true
}

// takeSlots removes the slots of r, for the caller to return. It requires mu.
func (r *reservations) takeSlots() []reservation {
	slots := r.slots
	r.slots = nil
	return slots
}

// sendSlots sends verb for all slots at the same time, so that a slow store delays the end of
// a request by one call. The caller does not hold mu. Errors are ignored: a slot that is not
// returned expires. It reports whether there were none.
func (r *reservations) sendSlots(slots []reservation, verb weir.Verb) (ok bool) {
	if len(slots) == 0 {
		return true
	}
	if e := r.enforcer; e.prompt && len(slots) == 1 && slots[0].store == e.store {
		return slots[0].send(r.ctx, verb, slots[0].request.N) == nil
	}
	ctx, stop := settleContext(r.ctx, settleTimeout)
	defer stop()
	var others sync.WaitGroup
	for i := range slots[1:] {
		slot := &slots[1+i]
		others.Go(func() { _ = slot.send(ctx, verb, slot.request.N) })
	}
	_ = slots[0].send(ctx, verb, slots[0].request.N)
	others.Wait()
	return false
}

// send asks the store for verb with n tokens.
func (r *reservation) send(ctx context.Context, verb weir.Verb, n int64) error {
	request := r.request
	request.Verb, request.N = verb, n
	return r.do(ctx, request)
}

// do sends request to the store, and keeps the state of the limit after it.
func (r *reservation) do(ctx context.Context, request weir.Request) error {
	d, err := r.store.Do(ctx, request)
	if err == nil {
		d.Degraded = r.last.Degraded
		r.last = d
	}
	return err
}

// settle charges n tokens for r, even if the reservation has expired. What a Take charged stays
// charged until then.
func (r *reservation) settle(ctx context.Context, n int64) error {
	if r.request.Verb == weir.Reserve {
		if err := r.send(ctx, weir.Commit, n); !errors.Is(err, weir.ErrNoReservation) {
			return err
		}
	} else {
		n -= r.charged()
	}
	if n > 0 {
		return r.send(ctx, weir.Charge, n)
	}
	return r.giveBack(ctx, -n)
}

// cancel returns all reservations.
func (r *reservations) cancel() {
	r.release()
	ctx, stop := settleContext(r.ctx, settleTimeout)
	defer stop()
	for i := range r.tokens {
		_ = r.tokens[i].settle(ctx, 0) // it expires otherwise
	}
	r.cancelUncertain()
}

// empty reports whether there are no reservations.
func (r *reservations) empty() bool { return len(r.tokens)+len(r.slots)+len(r.uncertain) == 0 }

// exit returns the slots and settles the tokens by result.
func (r *reservations) exit(result *Result) {
	returned := r.release()
	events := r.settle(result)
	r.cancelUncertain()
	if r.enforcer.c.Observe != nil {
		for _, event := range events {
			r.enforcer.c.Observe(r.ctx, r.a, event)
		}
	}
	if returned && len(r.tokens)+len(r.uncertain) == 0 {
		r.recycle()
	}
}

// settle settles every reservation of tokens by result. It returns the events of the end of the
// request.
func (r *reservations) settle(result *Result) (events []Event) {
	if len(r.tokens) == 0 {
		return nil
	}
	timeout := settleTimeout
	if slices.ContainsFunc(r.tokens, func(t reservation) bool { return t.policy.Config().Settle.Meter != nil }) {
		timeout = meterTimeout
	}
	ctx, stop := settleContext(r.ctx, timeout)
	defer stop()
	var last *policy.Policy // with a failed settlement
	for i := range r.tokens {
		t := &r.tokens[i]
		c, cost := t.policy.Config(), t.charged()
		var reason error
		switch {
		case !result.ClientGone && !counts(&c, result.Status):
			cost = 0
		case c.Settle != policy.Settle{}:
			cost, reason = result.cost(c.Settle, cost)
		}
		err := t.settle(ctx, cost)
		event := Event{Policy: t.policy, Shadow: t.shadow, Key: t.key, Cost: cost}
		if reason != nil && (i == 0 || r.tokens[i-1].policy != t.policy) {
			event.Outcome, event.Err = Unpriced, reason
			events = append(events, event)
		}
		if err != nil && last != t.policy {
			event.Outcome, event.Err, last = Unsettled, err, t.policy
			events = append(events, event)
		}
		if err == nil && c.Settle.Meter != nil && c.Settle.Meter.Config().Warn != nil {
			event.Outcome, event.Err, event.Decision = Settled, nil, t.last
			events = append(events, event)
		}
	}
	return events
}

// maxCost is the largest cost of a result, like the largest count of a limit.
const maxCost = 1 << 40

// cost returns the cost that s selects. If there is none, it returns the reserved cost or, if that
// is larger, the part that is known, and the reason.
func (result *Result) cost(s policy.Settle, reserved int64) (n int64, reason error) {
	reason = budget.ErrNoUsage
	if result.CostFromResponse != nil {
		n, reason = result.CostFromResponse(s)
	}
	if n < 0 || n > maxCost {
		n, reason = 0, fmt.Errorf("%w: got %d, want 0 to %d", budget.ErrBadUsage, n, int64(maxCost))
	}
	switch {
	case reason == nil:
		return n, nil
	case result.ClientGone:
		reason = budget.ErrDisconnected
	}
	return max(n, reserved), reason
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
