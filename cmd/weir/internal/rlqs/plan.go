package rlqs

import (
	"slices"
	"time"

	"github.com/floodweir/weir/share"
)

// An assignment is a token bucket that a client gets. The zero value denies every request.
type assignment struct {
	tokens int64 // per fill interval
	burst  int64
	every  time.Duration
}

// A promise is an assignment that a client may use until end.
type promise struct {
	assignment
	end time.Time
}

// An outcome is the result of a plan.
type outcome uint8

const (
	silent  outcome = iota // no response: the client keeps what it has
	renewed                // the same assignment, which costs nothing
	changed                // another one, or the same one from a full bucket
	denied                 // nothing is left
)

// A plan holds the next assignment of a client.
type plan struct {
	outcome
	assignment
}

// A grant is the part of a limit that one client has.
type grant struct {
	c        *Config
	id       uint64        // of the holder
	every    time.Duration // the fill interval
	promises []promise     // sent, in their order
	current  assignment
	known    bool      // current was sent
	sent     time.Time // begin of the claim before current was sent last
	since    time.Time // begin of the claim of current; zero while it is a guess
	demand   float64   // tokens per second
	measured bool

	begin time.Time // of the claim in progress
	next  plan      // of it
}

// forget drops the promises that have ended.
func (g *grant) forget(now time.Time) {
	g.promises = slices.DeleteFunc(g.promises, func(p promise) bool { return !now.Before(p.end) })
}

// arrives reports whether an assignment that is sent now arrives before the client's one expires.
func (g *grant) arrives() bool {
	ttl := g.c.TTL - g.c.TTL/time.Duration(million/g.c.Drift)
	return g.known && g.current.tokens > 0 && g.begin.Add(sendWithin+Delivery).Before(g.sent.Add(ttl))
}

// reserve returns the part that covers the promises. Their tokens add up, because the client may
// empty a bucket before it learns of the next one. It refills one of them at a time.
func (g *grant) reserve(o *share.Offer, more assignment) share.Part {
	all := append(g.promises[:len(g.promises):len(g.promises)], promise{assignment: more})
	var p share.Part
	most := int64(0)
	for _, one := range all {
		if one.tokens == 0 {
			continue
		}
		p.Size += one.burst
		most = max(most, one.tokens)
		p.Rate = max(p.Rate, o.Rate(one.tokens, one.every))
	}
	p.Size += most // a client may add the tokens of an interval at its end
	return p
}

// decide implements share.Claim.Decide.
func (g *grant) decide(o share.Offer) share.Part {
	held := g.reserve(&o, assignment{})
	covered := held.Rate <= o.Held.Rate && held.Size <= o.Held.Size
	keep := share.Part{Rate: min(held.Rate, o.Held.Rate+max(0, o.Free.Rate)), Size: min(held.Size, o.Held.Size+max(0, o.Free.Size))}
	arrives := g.arrives()
	want := g.wanted(&o)
	if !arrives || g.due(want) {
		if a, p, ok := g.change(&o, want, arrives); ok {
			g.next = plan{changed, a}
			return p
		}
	}
	exceeded := o.Free.Rate < 0 || o.Free.Size < 0 // a changed limit has granted more than its whole
	switch {
	case arrives && covered && !exceeded && want.tokens > 0:
		g.next = plan{renewed, g.current}
	case arrives && want.tokens > 0:
		g.next = plan{}
	default:
		g.next = plan{outcome: denied}
	}
	return keep
}

// due reports whether the current assignment differs too much from what the client should have. It
// changes once in its time to live, because a change reserves two. One that is wrong by half changes at
// once: the first one after the demand has moved is for a demand that was measured in part before.
func (g *grant) due(want assignment) bool {
	has := g.current
	if wrong := 3*want.tokens < 2*has.tokens || 2*want.tokens > 3*has.tokens; !wrong && !g.since.IsZero() && g.begin.Before(g.since.Add(g.c.TTL)) {
		return false
	}
	differs := want.tokens - has.tokens
	return want.tokens == 0 || 5*max(differs, -differs) > has.tokens || want.burst > 2*has.burst
}

// change returns the assignment that comes nearest to want, and the part that covers it.
func (g *grant) change(o *share.Offer, want assignment, arrives bool) (a assignment, p share.Part, ok bool) {
	if want.tokens == 0 {
		return a, p, false
	}
	free := o.Free
	shrinks := arrives && want.tokens < g.current.tokens
	switch {
	case shrinks: // it may use the reserve, because it frees more than that
	case g.current.tokens > 0 && arrives:
		free.Rate, free.Size = free.Rate-o.Reserve.Rate, free.Size-o.Reserve.Size
	default:
		free.Rate, free.Size = max(free.Rate-o.Reserve.Rate, free.Rate/2), max(free.Size-o.Reserve.Size, free.Size/2)
	}
	held := g.reserve(o, assignment{})
	rate := max(o.Held.Rate, 0) + max(0, free.Rate)
	size := max(0, o.Held.Size+max(0, free.Size)-held.Size)
	most := int64(0)
	for _, one := range g.promises {
		most = max(most, one.tokens)
	}
	a = assignment{every: want.every}
	a.tokens = min(want.tokens, o.Tokens(rate, a.every), most+max(0, size-1))
	a.burst = min(want.burst, size-max(0, a.tokens-most), free.Level)
	switch {
	case a.tokens < 1 || a.burst < 1:
		return a, p, false
	case arrives && !shrinks && 5*(a.tokens-g.current.tokens) <= g.current.tokens && a.burst <= 2*g.current.burst:
		return a, p, false // it is not worth it
	}
	p = g.reserve(o, a)
	if p.Rate > rate || p.Size > o.Held.Size+max(0, free.Size) {
		return a, p, false
	}
	p.Level = a.burst
	return a, p, true
}

// wanted returns the assignment that the client should have.
func (g *grant) wanted(o *share.Offer) assignment {
	rate := g.target(o)
	size := max(o.Size(rate), (o.Whole.Size-o.Reserve.Size)/int64(len(o.Others)+2))
	a := assignment{every: g.every, tokens: o.Tokens(rate, g.every)}
	a.tokens = min(a.tokens, max(1, size*7/8), maxTokens)
	if a.tokens > 0 {
		a.burst = min(max(1, (size-a.tokens)/2), maxTokens) // the other half is for changes
	}
	return a
}

// maxTokens is the largest number of an assignment.
const maxTokens = 1<<32 - 1

// target returns the rate that the client should have: a quarter more than its demand, and a bit. If
// the limit does not suffice, it is divided max-min fair. If not even a token of an interval is left
// for each client, they take turns.
func (g *grant) target(o *share.Offer) int64 {
	bit := o.Whole.Rate / max(64, 16*int64(len(o.Others)+1))
	want := func(demand int64) int64 { return demand + demand/4 + bit }
	free := o.Whole.Rate - o.Reserve.Rate
	if turns := min(free/max(1, o.Rate(1, g.every)), (o.Whole.Size-o.Reserve.Size)/3); int64(len(o.Others)) >= turns {
		return g.turn(o, turns)
	}
	mine := want(o.Demand)
	if !g.measured {
		mine = free / int64(len(o.Others)+2)
	}
	wants := []int64{mine}
	for _, other := range o.Others {
		wants = append(wants, want(other.Demand))
	}
	return fair(free, wants)
}

// fair returns what the first of wants gets of free, max-min fair.
func fair(free int64, wants []int64) int64 {
	mine := wants[0]
	slices.Sort(wants)
	for i, want := range wants {
		level := free / int64(len(wants)-i)
		if want > level {
			return min(mine, level)
		}
		free -= want
	}
	return mine
}

// turn returns the rate of the smallest assignment if it is the turn of the client. In each period,
// so many clients have their turns, in the order of their numbers.
func (g *grant) turn(o *share.Offer, turns int64) int64 {
	before := int64(0)
	for _, other := range o.Others {
		if other.Holder < g.id {
			before++
		}
	}
	n := int64(len(o.Others)) + 1
	period := o.At.UnixMicro() / (2 * g.c.lease().Microseconds())
	if (before+n-period%n*turns%n)%n < turns {
		return o.Rate(1, g.every)
	}
	return 0
}

// observe measures the demand by what a client requested in a time. It falls at once if it halves,
// unless by chance.
func (g *grant) observe(requests int64, elapsed time.Duration) {
	now := float64(requests) / elapsed.Seconds()
	switch expected := g.demand * elapsed.Seconds(); {
	case !g.measured || now > g.demand:
		g.demand = now
	case expected > 20 && now < g.demand/2:
		g.demand = now
	default:
		g.demand = g.demand*0.7 + now*0.3
	}
	if !g.measured {
		g.measured, g.since = true, time.Time{}
	}
}
