package enforce

import (
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// replaced is the outcome of a request that the successor decides.
const replaced Outcome = ""

// decideInOrder is decide for requests that may wait. The first request that waits for a key
// asks the store, and the others queue behind it. A request that is then denied for another
// key queues for that key, at the end. The store is not asked once e is replaced.
func (e *Enforcer) decideInOrder(p *Admission, charges []policy.Charge) (Outcome, error) {
	if p.waited == (waitqueue.Deadline{}) {
		p.waited = e.queue.Deadline(0)
	}
	var outcome Outcome
	var storeErr error
	by := e.queuedCharge(charges)
	decided, err := e.queue.Retry(p.ctx, p.step(by), func() (waitqueue.Step, error) {
		if e.next.Load() != nil {
			outcome = replaced
			return waitqueue.Step{Done: true}, nil
		}
		if outcome, storeErr = e.decide(p, charges); outcome != Denied {
			return waitqueue.Step{Done: true}, nil
		}
		var retry time.Duration
		by, retry = p.denier()
		d := p.Decisions(by)[0]
		left := by.Policy.Config().OnDenied.Wait + p.waited.Observe(d.At, string(d.Degraded))
		step := p.step(by)
		step.Done = left <= 0 || retry > left || retry <= 0 // 0: the time is unknown
		step.After = retry
		return step, nil
	})
	switch {
	case err != nil:
		return FailedClosed, err
	case !decided:
		return e.denyQueued(p, charges, by)
	}
	return outcome, storeErr
}

// step returns the wait of p for the key of by, the charge that denied p or that has
// waiters. It is the zero Step if by is nil.
func (p *Admission) step(by *policy.Charge) waitqueue.Step {
	if by == nil {
		return waitqueue.Step{}
	}
	return waitqueue.Step{Queue: by.Key, Until: p.waited.Until().Add(by.Policy.Config().OnDenied.Wait)}
}

// denyQueued denies a request that was not first in the queue in time. Tokens may remain, but
// they are for the requests that wait, so by denies it even if Peek admits it. Its RetryAfter is
// the time in which the limits of by refill for those and for it, if each costs the same.
func (e *Enforcer) denyQueued(p *Admission, charges []policy.Charge, by *policy.Charge) (Outcome, error) {
	rs, ds := p.of(charges)
	for i := range rs {
		rs[i].Verb, rs[i].ID = weir.Peek, ""
	}
	waiting := e.queue.Waiting(by.Key)
	behind := make([]waitqueue.Behind, len(rs))
	for i := by.From; i < by.To; i++ {
		l := rs[i].Limit
		behind[i] = waitqueue.BehindOf(waiting, rs[i].N, l.Capacity(), l.Count(), l.Period())
		rs[i].N = behind[i].Ask
	}
	outcome, err := e.decide(p, charges)
	if outcome != Admitted && outcome != Denied {
		return outcome, err
	}
	for i := by.From; i < by.To; i++ {
		if d := &ds[i]; !d.OK || outcome == Admitted {
			d.OK, d.RetryAfter = false, behind[i].RetryAfter(d.RetryAfter)
		}
	}
	return Denied, err
}

// queuedCharge returns the first of charges whose key has waiters, or nil.
func (e *Enforcer) queuedCharge(charges []policy.Charge) *policy.Charge {
	for i := range charges {
		if e.queue.Waiting(charges[i].Key) > 0 {
			return &charges[i]
		}
	}
	return nil
}
