package explain

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// Explain returns how a request would be decided. It consumes nothing. Without shares, which may be
// nil, limits are not divided. An error is a *problem.FieldError about q.
func Explain(ctx context.Context, store weir.Store, shares Division, set *policy.Set, q Question) (*Answer, error) {
	return explain(ctx, store, shares, nil, set, q)
}

// explain is Explain in a region, whose function may be nil.
func explain(ctx context.Context, store weir.Store, shares Division, region RegionOf, set *policy.Set, q Question) (*Answer, error) {
	r, err := q.request()
	if err != nil {
		return nil, err
	}
	a := &Answer{Verdict: Unlimited, Policies: []Policy{}, Request: Request{Method: r.Method(), Host: r.Host(), Path: r.r.URL.RequestURI()}}
	if r.addr.IsValid() {
		a.Request.ClientIP = r.addr.String()
	}
	var matched, all policy.Matches
	enforced := set.Match(&matched, r)
	charges := set.Explain(&all, r)
	for i := range all.Requests {
		all.Requests[i].Verb = weir.Peek
	}
	e := explanation{Answer: a, ctx: ctx, store: store, shares: shares, region: region, rs: all.Requests, ds: make([]weir.Decision, len(all.Requests))}
	var storeErr error
	if enforced > 0 {
		storeErr = e.decide(0, enforced)
	}
	for _, c := range charges {
		a.Policies = append(a.Policies, e.policy(c, storeErr))
	}
	if i := slices.IndexFunc(charges, func(c policy.Charge) bool { return c.Missed == "" && c.Enforced && c.Blocked }); i >= 0 {
		e.deny(charges[i], weir.Decision{RetryAfter: weir.Never})
	} else if enforced > 0 {
		e.setVerdict(charges, enforced, storeErr)
	}
	return a, nil
}

// An explanation builds an Answer.
type explanation struct {
	*Answer
	ctx    context.Context
	store  weir.Store
	shares Division
	region RegionOf
	rs     []weir.Request
	ds     []weir.Decision
}

// decide peeks at the requests from index from to to, at one instant.
func (e *explanation) decide(from, to int) error {
	_, err := e.store.DoAll(e.ctx, e.rs[from:to], e.ds[from:to])
	if err == nil && to > from && e.At.IsZero() {
		e.At = e.ds[from].At.UTC()
	}
	return err
}

// policy returns the result of one policy. storeErr is the reason why enforced policies were
// not decided, or nil.
func (e *explanation) policy(f policy.Charge, storeErr error) Policy {
	c := f.Policy.Config()
	p := Policy{Name: f.Policy.Name(), Matched: f.Missed == "", Why: f.Missed, Mode: string(c.Mode)}
	p.Candidate = strings.HasSuffix(p.Name, "~candidate")
	if c.Percent < 100 && !p.Candidate {
		p.Percent = c.Percent
	}
	if c.Count != policy.CountAdmitted {
		p.Count = string(c.Count)
	}
	if f.Missed != "" {
		return p
	}
	if f.Adjustment != nil {
		p.Adjustment = f.Adjustment.Note
	}
	p.Key, p.Cost, p.Enforced, p.Blocks, p.OnStoreError = f.Key, f.Cost, f.Enforced, f.Blocked, string(c.OnStoreError)
	if p.Blocks {
		return p
	}
	err := storeErr
	if !p.Enforced {
		err = e.decide(f.From, f.To)
	}
	for i := f.From; i < f.To; i++ {
		l := Limit{Limit: e.rs[i].Limit.Brief(), Capacity: e.rs[i].Limit.Capacity()}
		if err == nil {
			l = limitOf(e.rs[i], e.ds[i])
		}
		l.Shares = e.sharesOf(&e.rs[i])
		if e.region != nil {
			l.Region = e.region(e.ctx, e.rs[i].Key, e.rs[i].Limit)
		}
		p.Limits = append(p.Limits, l)
	}
	switch {
	case f.Err != nil:
		p.Problem = f.Err.Error()
	case err != nil:
		p.Problem = "the store could not decide: " + err.Error()
	}
	return p
}

// setVerdict sets the verdict of the enforced policies.
func (e *explanation) setVerdict(charges []policy.Charge, enforced int, storeErr error) {
	if storeErr != nil {
		e.Verdict = Undecided
		if errors.Is(storeErr, weir.ErrOverloaded) {
			e.Verdict = Overloaded
		}
		return
	}
	counts := enforce.Combine(e.ds[:enforced])
	e.Verdict, e.Delay = Admitted, Seconds(counts.Delay)
	for i, f := range charges {
		if f.Missed != "" || !f.Enforced {
			continue
		}
		for j := f.From; j < f.To; j++ {
			d := e.ds[j]
			if d.OK != counts.OK || d.RetryAfter != counts.RetryAfter || d.Remaining != counts.Remaining || !d.Limit.Equal(counts.Limit) {
				continue
			}
			e.Policies[i].Limits[j-f.From].Decides = true
			if !counts.OK {
				e.deny(f, d)
			}
			return
		}
	}
}

// deny sets the Denial.
func (e *explanation) deny(f policy.Charge, d weir.Decision) {
	on := f.Policy.Config().OnDenied
	e.Verdict, e.Delay = Denied, 0
	e.Denial = &Denial{Policy: f.Policy.Name(), Limit: d.Limit.Brief(), Status: on.Status}
	e.Denial.RetryAfter, e.Denial.Never = retry(d)
	if on.Wait > 0 && d.RetryAfter <= on.Wait {
		e.Denial.Wait = Seconds(on.Wait)
	}
}
