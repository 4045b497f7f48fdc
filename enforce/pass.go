package enforce

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Pass is one request at a gate: what was asked and answered, and what it holds until
// it exits. The zero value is ready for Enter. One that has exited, or never passed, may
// be used again, which saves allocations. It is not copied.
type Admission struct {
	ctx  context.Context // nil once p has exited or did not pass
	gate *Enforcer
	a    policy.Attributes

	q        policy.Matches
	enforced int // of q.Asks
	requests int // of q.Requests, those of the enforced
	ds       []weir.Decision
	locals   []int // of q.Requests, those that Config.Local decided

	outcome Outcome
	err     error
	since   time.Time // when it began to wait; zero before that
	held    *holds
	open    atomic.Bool // it passed and has not exited
}

// begin makes p ready for a request.
func (p *Admission) begin(ctx context.Context, g *Enforcer, a policy.Attributes) {
	p.drop()
	p.ctx, p.gate, p.a = ctx, g, a
	p.enforced, p.requests, p.locals = 0, 0, p.locals[:0]
	p.outcome, p.err, p.since = Admitted, nil, time.Time{}
}

// move makes p, which was not admitted, a request at g. It keeps what a store may have
// granted to it without saying so.
func (p *Admission) move(g *Enforcer) {
	p.gate = g
	p.enforced, p.requests, p.locals = 0, 0, p.locals[:0]
	p.outcome, p.err = Admitted, nil
	if p.held != nil {
		p.held.gate = g
	}
}

// drop lets go of all that p holds and knows about its request, but for the answers.
func (p *Admission) drop() {
	h := p.held
	p.open.Store(false)
	p.held, p.ctx, p.a = nil, nil, nil
	if h != nil {
		h.cancel()
	}
}

// Outcome is what Enter returned.
func (p *Admission) Outcome() Outcome { return p.outcome }

// Err is why the store made no decision, or nil. Of a request whose context ended
// before it could pass it is the cause of that.
func (p *Admission) Err() error { return p.err }

// Asks are the questions of the enforced policies.
func (p *Admission) Charges() []policy.Charge { return p.q.Charges[:p.enforced] }

// Decisions are the decisions about one of Asks, one for each limit. One without a
// Limit was not made: the request went through, or was refused, undecided.
func (p *Admission) Decisions(a *policy.Charge) []weir.Decision { return p.ds[a.From:a.To] }

// Decision is the decision that counts: of a denied request the one that holds it back
// longest, otherwise the one with the smallest share left. It has no Limit if none was
// made.
func (p *Admission) Decision() weir.Decision {
	ds := p.ds[:p.requests]
	for i := range ds {
		if ds[i].Limit.IsZero() {
			return Combine(made(ds))
		}
	}
	return Combine(ds)
}

// made is those of ds that were made.
func made(ds []weir.Decision) []weir.Decision {
	var some []weir.Decision
	for _, d := range ds {
		if !d.Limit.IsZero() {
			some = append(some, d)
		}
	}
	return some
}

// Denier is the policy that denied the request, or nil. Of several it is the one that
// holds it back longest.
func (p *Admission) DeniedBy() *policy.Policy {
	if p.outcome != Denied {
		return nil
	}
	by, _ := p.denier()
	return by.Policy
}

// Settles are the policies, in shadow too, that Exit settles by the result: those that
// count by its status or ask it for a number.
func (p *Admission) Settles() iter.Seq[*policy.Policy] {
	return func(yield func(*policy.Policy) bool) {
		if p.held == nil {
			return
		}
		var last *policy.Policy
		for i := range p.held.tokens {
			if one := p.held.tokens[i].policy; one != last && !yield(one) {
				return
			}
			last = p.held.tokens[i].policy
		}
	}
}

// Holds reports whether the request holds something that Exit has to give back or
// settle.
func (p *Admission) NeedsExit() bool { return p.held != nil }

// Exit gives back and settles what the request holds. Exiting again, and exiting what
// holds nothing, does nothing, but that p lets go of its context and attributes.
func (p *Admission) Exit(r Result) {
	if !p.open.CompareAndSwap(true, false) {
		return
	}
	h := p.held
	p.held, p.ctx, p.a = nil, nil, nil
	if h != nil {
		h.exit(&r)
	}
}

// Cancel gives everything back, as if the request had never been, as far as its limits
// can: what was taken, too, of which Holds tells nothing. After Exit, and of what did not
// pass, it does nothing.
func (p *Admission) Cancel() {
	if !p.open.CompareAndSwap(true, false) {
		return
	}
	p.gate.giveBack(p, p.q.Charges)
	p.drop()
}

// A Result is what became of a request that passed.
type Result struct {
	// Status is the HTTP status, or the one that another protocol's outcome amounts to:
	// policies that count by the outcome count by it. Zero is no failure.
	Status int

	// Unheard says that the caller went away before the end: it is charged whatever is
	// counted.
	ClientGone bool

	// Tells finds the number that a policy's Settle asks for; nothing does if nil. A
	// number below 0 or above 2^40 is as none.
	CostFromResponse func(policy.Settle) (int64, bool)
}

// of is the requests and the decisions of asks that follow each other.
func (p *Admission) of(asks []policy.Charge) ([]weir.Request, []weir.Decision) {
	from, to := asks[0].From, asks[len(asks)-1].To
	return p.q.Requests[from:to], p.ds[from:to]
}

// shadow reports whether a is only tried out on this request.
func (p *Admission) shadow(a *policy.Charge) bool { return a.From >= p.requests }

// Combine returns the decision that counts, as weir.Decision.Combine does; the zero
// Decision if there is none.
func Combine(ds []weir.Decision) weir.Decision {
	if len(ds) == 0 {
		return weir.Decision{}
	}
	return ds[0].Combine(ds[1:]...)
}
