package redisstore

import (
	"context"
	"time"

	"github.com/floodweir/weir"
)

// retract undoes a Reserve as if it had never been asked for. Only the script
// knows this verb.
const retract weir.Verb = 9

// bySlot groups requests by the slots of their keys, each group in order.
func (s *Store) bySlot(rs []weir.Request) (groups [][]int) {
	at := map[uint16]int{}
	for i := range rs {
		_, tag := s.stateName(rs[i].Key, "")
		slot := slotOf(tag)
		g, ok := at[slot]
		if !ok {
			g = len(groups)
			at[slot] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// acrossSlots decides requests that no single step of Redis can decide together.
//
//  1. Every slot decides its requests and writes nothing. If one denies, the
//     batch is denied: that is all that most denied batches cost.
//  2. The slots with nothing but Take, TakeUpTo and Reserve charge, each all or
//     none.
//  3. The slots that also have other verbs follow, one after the other.
//  4. The slots where nothing can be denied come last.
//
// If a slot denies in 2 or 3 after all, because somebody else came in between,
// what was charged goes back. Until it has, others may be denied for it; nobody
// is admitted beyond the limit. What this process cannot give back, because it
// dies or Redis does not answer, stays charged until it is refilled, or until the
// reservation's TTL. A Reset, Commit or Cancel in 3 is final.
func (s *Store) acrossSlots(ctx context.Context, rs []weir.Request, ds []weir.Decision, groups [][]int) (bool, error) {
	parts := make([]*part, len(groups))
	for i, g := range groups {
		parts[i] = newPart(dryRun, rs, g)
	}
	if err := s.askParts(ctx, parts); err != nil {
		return false, err
	}
	if !scatter(parts, ds) {
		return false, s.precede(ctx, rs, groups)
	}
	var charged []*part
	for _, step := range steps(rs, groups) {
		err := s.askParts(ctx, step)
		charged = append(charged, step...)
		if err != nil || !scatter(step, ds) {
			s.giveBack(ctx, charged)
			return false, err
		}
	}
	return true, nil
}

// steps are the round trips that charge groups, as acrossSlots says. A group that
// only asks is done.
func steps(rs []weir.Request, groups [][]int) (steps [][]*part) {
	var first, last []*part
	for _, g := range groups {
		deniable, other := false, false
		for _, i := range g {
			switch rs[i].Verb {
			case weir.Peek:
			case weir.Take, weir.TakeUpTo, weir.Reserve:
				deniable = true
			default:
				other = true
			}
		}
		switch {
		case deniable && other:
			steps = append(steps, []*part{newPart(all, rs, g)})
		case deniable:
			first = append(first, newPart(all, rs, g))
		case other:
			last = append(last, newPart(all, rs, g))
		}
	}
	if first != nil {
		steps = append([][]*part{first}, steps...)
	}
	if last != nil {
		steps = append(steps, last)
	}
	return steps
}

// A part is an op for some requests of a batch.
type part struct {
	*op
	of []int // where its requests stand in the batch
}

func newPart(m mode, rs []weir.Request, of []int) *part {
	some := make([]weir.Request, len(of))
	for i, at := range of {
		some[i] = rs[at]
	}
	p := &part{newBatch(m, some), of}
	p.codes = make([]int64, len(of))
	return p
}

// askParts has all parts decided in one round trip. If it returns an error some
// may have been.
func (s *Store) askParts(ctx context.Context, parts []*part) error {
	if len(parts) == 0 {
		return nil
	}
	ops := make([]*op, len(parts))
	for i, p := range parts {
		ops[i] = p.op
	}
	if err := s.ask(ctx, ops...); err != nil {
		for _, p := range parts {
			p.op = &op{err: err} // the flight may still write into the old one
		}
		return err
	}
	for _, o := range ops {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// scatter puts the decisions of parts where they belong, and reports whether all
// were OK.
func scatter(parts []*part, ds []weir.Decision) bool {
	ok := true
	for _, p := range parts {
		for i, at := range p.of {
			ds[at] = p.ds[i]
		}
		ok = ok && p.ok
	}
	return ok
}

// giveBack undoes the parts that were charged. It goes on when ctx has ended.
func (s *Store) giveBack(ctx context.Context, parts []*part) {
	var ops []*op
	for _, p := range parts {
		if p.err != nil || !p.ok {
			continue
		}
		var back []weir.Request
		for i := len(p.rs) - 1; i >= 0; i-- {
			if r, ok := undo(&p.rs[i], &p.ds[i], p.codes[i]); ok {
				back = append(back, r)
			}
		}
		if back != nil {
			ops = append(ops, newBatch(all, back))
		}
	}
	if ops == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.config.Timeout+time.Second)
	defer cancel()
	_ = s.ask(ctx, ops...) // lost tokens come back with time
}

// endless is a debt so long that it may have been cut short: to give all of it
// back might give more than was charged.
const endless = 50 * 365 * 24 * time.Hour

// undo is the request that takes back what r did, if anything does. It never
// gives back more than r charged.
func undo(r *weir.Request, d *weir.Decision, code int64) (back weir.Request, ok bool) {
	back = weir.Request{Verb: weir.Return, Key: r.Key, Limit: r.Limit, N: d.Granted, At: d.At, ID: r.ID}
	switch r.Verb {
	case weir.Take, weir.TakeUpTo:
		return back, d.Granted > 0
	case weir.Charge:
		return back, d.Granted > 0 && d.ResetAfter < endless
	case weir.Reserve:
		back.Verb = retract
		return back, code != codeAgain
	case weir.Return:
		back.Verb, back.N = weir.Charge, r.N
		return back, r.N > 0
	}
	return back, false
}

// precede has every slot do what comes before a decision and stays when it is a
// denial: carry over the state of an older limit, remember the first sight of a
// key whose limit counts from then on. Few requests have either.
func (s *Store) precede(ctx context.Context, rs []weir.Request, groups [][]int) error {
	var parts []*part
	for _, g := range groups {
		for _, i := range g {
			if b, ok := rs[i].Limit.Config().(weir.TokenBucket); len(rs[i].From) > 0 || ok && b.Initial != nil {
				parts = append(parts, newPart(preceding, rs, g))
				break
			}
		}
	}
	return s.askParts(ctx, parts)
}
