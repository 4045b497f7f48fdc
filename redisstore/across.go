package redisstore

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/rediskey"
)

// retract undoes a Reserve completely. It is a verb of the script only.
const retract weir.Verb = 9

// bySlot groups the indexes of requests by the slots of their keys, each group in order.
func (s *Store) bySlot(rs []weir.Request) (groups [][]int) {
	at := map[uint16]int{}
	for i := range rs {
		_, tag := s.stateName(rs[i].Key, "")
		slot := rediskey.Slot(tag)
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

// acrossSlots decides a batch whose keys are in several slots.
//
//  1. Every slot decides its requests without writing. If one denies, the batch is denied.
//     Most denied batches end here.
//  2. The slots with only Take, TakeUpTo and Reserve charge, each all or none.
//  3. The slots that also have other verbs follow, one after the other.
//  4. The slots whose requests cannot be denied come last.
//
// If a slot denies in step 2 or 3, because of a concurrent request, the charges are
// returned. Until then other requests may be denied, but never admitted over the limit. A
// charge that cannot be returned, because the process ends or Redis is unavailable, stays
// until the limit refills or until the TTL of the reservation. A Reset, Commit or Cancel in
// step 3 is final.
func (s *Store) acrossSlots(ctx context.Context, rs []weir.Request, ds []weir.Decision, groups [][]int) (bool, error) {
	parts := make([]*part, len(groups))
	for i, g := range groups {
		parts[i] = newPart(dryRun, rs, g)
	}
	if err := s.askParts(ctx, parts); err != nil {
		return false, err
	}
	if !scatter(parts, ds) {
		return false, s.carryOver(ctx, rs, groups)
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

// steps returns the round trips that charge groups: steps 2 to 4 of acrossSlots. Groups
// with only Peek need none.
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

// A part is an op for the requests of a batch in one slot.
type part struct {
	*op
	of []int // indexes of its requests in the batch
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

// askParts decides all parts in one round trip. If it returns an error, some parts may be
// decided.
func (s *Store) askParts(ctx context.Context, parts []*part) error {
	if len(parts) == 0 {
		return nil
	}
	ops := make([]*op, len(parts))
	for i, p := range parts {
		ops[i] = p.op
	}
	if err := s.queue.Do(ctx, ops...); err != nil {
		for _, p := range parts {
			p.op = &op{Wait: batching.Wait{Err: err}} // the round trip may still write to the old op
		}
		return err
	}
	for _, o := range ops {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// scatter copies the decisions of parts to ds, and reports whether all are OK.
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

// giveBack returns the charges of parts, even if ctx has ended.
func (s *Store) giveBack(ctx context.Context, parts []*part) {
	var ops []*op
	for _, p := range parts {
		if p.Err != nil || !p.ok {
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
	_ = s.queue.Do(ctx, ops...) // the limit refills tokens that are lost
}

// endless is a debt that may have been truncated. Returning all of it could return more
// than was charged.
const endless = 50 * 365 * 24 * time.Hour

// undo returns the request that undoes r, if there is one. It never returns more than r
// charged.
func undo(r *weir.Request, d *weir.Decision, code int64) (back weir.Request, ok bool) {
	back = weir.Request{Verb: weir.Return, Key: r.Key, Limit: r.Limit, N: d.Granted, At: d.At, Borrowed: d.Borrowed, ID: r.ID}
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

// carryOver makes every slot write the state that is kept even on denial. That is state
// carried over from an older limit, and the first use of a key whose limit counts from
// then on. Few requests have either.
func (s *Store) carryOver(ctx context.Context, rs []weir.Request, groups [][]int) error {
	var parts []*part
	for _, g := range groups {
		for _, i := range g {
			if b, ok := rs[i].Limit.Config().(weir.TokenBucket); len(rs[i].From) > 0 || rs[i].Limit.Spec().Named || ok && b.Initial != nil {
				parts = append(parts, newPart(carryOver, rs, g))
				break
			}
		}
	}
	return s.askParts(ctx, parts)
}
