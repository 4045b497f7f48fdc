package enforce

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// An Admission has the charges, the decisions and the reservations of one request. The zero
// value is ready for Enter. An Admission can be used again after Exit, or if the request
// did not pass; that saves allocations. Do not copy it.
type Admission struct {
	ctx      context.Context // nil once p has exited or did not pass
	enforcer *Enforcer
	a        policy.Attributes

	q        policy.Matches
	enforced int // number of q.Charges that are enforced
	requests int // number of q.Requests that are enforced
	ds       []weir.Decision
	locals   []int // indexes of q.Requests that Config.Local decided

	outcome  Outcome
	err      error
	took     time.Duration      // of the last decision of the store
	waited   waitqueue.Deadline // its start is the end of a wait of 0; zero before it waits
	reserved *reservations
	open     atomic.Bool // it passed and has not exited
}

// begin prepares p for a request.
func (p *Admission) begin(ctx context.Context, e *Enforcer, a policy.Attributes) {
	p.release()
	p.ctx, p.enforcer, p.a = ctx, e, a
	p.enforced, p.requests, p.locals = 0, 0, p.locals[:0]
	p.outcome, p.err, p.took, p.waited = Admitted, nil, 0, waitqueue.Deadline{}
}

// move makes p, which is not admitted, a request of e. It keeps the uncertain reservations.
func (p *Admission) move(e *Enforcer) {
	p.enforcer = e
	p.enforced, p.requests, p.locals = 0, 0, p.locals[:0]
	p.outcome, p.err = Admitted, nil
	if p.reserved != nil {
		p.reserved.enforcer = e
	}
}

// release cancels the reservations of p and drops its request. The decisions stay.
func (p *Admission) release() {
	reserved := p.reserved
	p.open.Store(false)
	p.reserved, p.ctx, p.a = nil, nil, nil
	if reserved != nil {
		reserved.cancel()
	}
}

// Outcome returns the outcome of Enter.
func (p *Admission) Outcome() Outcome { return p.outcome }

// Err returns the error because of which the store made no decision, or nil. For a request
// whose context ended before it passed, it is the cause of the context.
func (p *Admission) Err() error { return p.err }

// Charges returns the charges of the enforced policies.
func (p *Admission) Charges() []policy.Charge { return p.q.Charges[:p.enforced] }

// Decisions returns the decisions of a charge of Charges, one for each limit. A decision without
// a Limit was not made: the request was admitted or refused by OnStoreError, or a policy blocks it.
func (p *Admission) Decisions(charge *policy.Charge) []weir.Decision {
	return p.ds[charge.From:charge.To]
}

// Decision returns the decision that counts. For a denied request it has the longest
// RetryAfter; otherwise it has the smallest remaining part. It has no Limit if no decision
// was made, or if a policy blocks the request; RetryAfter is then weir.Never.
func (p *Admission) Decision() weir.Decision {
	if p.outcome == Denied && blocked(p.Charges()) != nil {
		return weir.Decision{RetryAfter: weir.Never}
	}
	ds := p.ds[:p.requests]
	for i := range ds {
		if ds[i].Limit.IsZero() {
			return Combine(decided(ds))
		}
	}
	return Combine(ds)
}

// decided returns those of ds that have a Limit.
func decided(ds []weir.Decision) []weir.Decision {
	var some []weir.Decision
	for _, d := range ds {
		if !d.Limit.IsZero() {
			some = append(some, d)
		}
	}
	return some
}

// DeniedBy returns the policy that denied the request with the longest RetryAfter, or nil.
func (p *Admission) DeniedBy() *policy.Policy {
	if p.outcome != Denied {
		return nil
	}
	by, _ := p.denier()
	return by.Policy
}

// Refused returns the reason why a policy denied the request without its limits, or nil: see
// policy.Charge.
func (p *Admission) Refused() error {
	if by := blocked(p.Charges()); by != nil && p.outcome == Denied {
		return by.Refused
	}
	return nil
}

// Settles returns the policies, also in shadow mode, that Exit settles by the result.
func (p *Admission) Settles() iter.Seq[*policy.Policy] {
	return func(yield func(*policy.Policy) bool) {
		if p.reserved == nil {
			return
		}
		var last *policy.Policy
		for i := range p.reserved.tokens {
			if one := p.reserved.tokens[i].policy; one != last && !yield(one) {
				return
			}
			last = p.reserved.tokens[i].policy
		}
	}
}

// NeedsExit reports whether Exit has something to return or to settle.
func (p *Admission) NeedsExit() bool { return p.reserved != nil }

// Exit returns the slots and settles the reservations of the request. Only the first call
// has an effect. After it p does not reference its context and attributes.
func (p *Admission) Exit(result Result) {
	if !p.open.CompareAndSwap(true, false) {
		return
	}
	reserved := p.reserved
	p.reserved, p.ctx, p.a = nil, nil, nil
	if reserved != nil {
		reserved.exit(&result)
	}
}

// Cancel returns all charges and reservations of the request, as far as its limits can. It
// has no effect after Exit, or if the request did not pass.
func (p *Admission) Cancel() {
	if !p.open.CompareAndSwap(true, false) {
		return
	}
	p.enforcer.giveBack(p, p.q.Charges)
	p.release()
}

// A Result describes the end of a request that passed.
type Result struct {
	// Status is the HTTP status, or the status that corresponds to the result of another
	// protocol. Policies that count by the result use it. Zero is no failure.
	Status int

	// ClientGone is set if the client disconnected before the end. The request is then
	// charged, whatever the policy counts.
	ClientGone bool

	// CostFromResponse, if not nil, returns the cost that the Settle of a policy selects, from
	// 0 to 2^40. Its error wraps budget.ErrNoUsage, ErrBadUsage or ErrUnknownModel. The
	// number is then a part of the cost or an estimate. The request costs the larger of it and
	// what is charged already, and is reported as [Unpriced].
	CostFromResponse func(policy.Settle) (int64, error)
}

// of returns the requests and the decisions of consecutive charges.
func (p *Admission) of(charges []policy.Charge) ([]weir.Request, []weir.Decision) {
	from, to := charges[0].From, charges[len(charges)-1].To
	return p.q.Requests[from:to], p.ds[from:to]
}

// shadow reports whether charge is not enforced for this request.
func (p *Admission) shadow(charge *policy.Charge) bool { return !charge.Enforced }

// Combine returns the decision that counts, as weir.Decision.Combine does; the zero
// Decision if there is none.
func Combine(ds []weir.Decision) weir.Decision {
	if len(ds) == 0 {
		return weir.Decision{}
	}
	return ds[0].Combine(ds[1:]...)
}
