package enforce

import (
	"context"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// Single returns the request that Enter sends to the store for every request with the attributes
// a. It reports false unless the store's decision on it is all that Enter returns. So one enforced
// policy has one limit, without a queue, and the store is in memory. The caller may ask the store
// itself, or EnterSlot about a Reserve. It calls Enter after an error.
func (e *Enforcer) Single(a policy.Attributes) (r weir.Request, ok bool) {
	if !e.prompt || e.waits || e.settles || e.counts || e.blocks || e.limiters != nil || e.c.Observe != nil || e.c.KeepOnCancel {
		return r, false
	}
	var q policy.Matches
	if e.set.Match(&q, a) != 1 || len(q.Charges) != 1 || len(q.Requests) != 1 || q.Charges[0].Blocked || q.Charges[0].Err != nil {
		return r, false
	}
	r = q.Requests[0]
	if len(r.From) > 0 {
		return r, false
	}
	if isSlot(&r) {
		r.Verb, r.TTL = weir.Reserve, leaseOf(&r)
		return r, r.N > 0 && e.c.DecideCanceled && !e.c.NoResponse
	}
	queue, _ := r.Limit.Config().(weir.LeakyBucket)
	return r, !queue.Queue
}

// A Slot is a slot of a request, which is renewed until Exit.
type Slot reservations

// EnterSlot decides a Reserve that Single returned, as Enter does. The slot is nil unless the
// decision is OK. The caller calls its Exit at the end of the request.
func (e *Enforcer) EnterSlot(ctx context.Context, r weir.Request) (weir.Decision, *Slot, error) {
	reserved := e.newReservations(ctx, nil)
	r.ID = reserved.id
	d, err := e.store.Do(ctx, r)
	if err != nil || !d.OK {
		reserved.recycle()
		return d, nil, err
	}
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	reserved.addSlot(&reservation{store: e.store, request: r})
	reserved.arm()
	return d, (*Slot)(reserved), nil
}

// Exit returns the slot. It is called once.
func (s *Slot) Exit() { (*reservations)(s).exit(&Result{}) }
