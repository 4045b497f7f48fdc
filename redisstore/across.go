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
//  2. Every slot charges those of its requests that may be denied, all or none.
//     If one denies now, because somebody else came in between, the others give
//     back what they charged.
//  3. What cannot be denied follows: Charge, Return, Reset, Commit, Cancel.
//
// Who comes between 2 and its giving back may be denied by what goes back a
// moment later; nobody is admitted beyond the limit. If this process dies
// there, what it had charged stays charged until it is refilled, or until the
// reservation's TTL.
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

	charges, rest := splitParts(rs, groups)
	err := s.askParts(ctx, charges)
	if err != nil || !charged(charges, ds) {
		s.giveBack(ctx, charges)
		return false, err
	}
	if err := s.askParts(ctx, rest); err != nil {
		s.giveBack(ctx, charges)
		return false, err
	}
	return charged(rest, ds), nil
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

// splitParts divides each group into what may be denied and what may not. A Peek
// has been answered already.
func splitParts(rs []weir.Request, groups [][]int) (charges, rest []*part) {
	for _, g := range groups {
		var charge, other []int
		for _, i := range g {
			switch rs[i].Verb {
			case weir.Peek:
			case weir.Take, weir.TakeUpTo, weir.Reserve:
				charge = append(charge, i)
			default:
				other = append(other, i)
			}
		}
		if charge != nil {
			charges = append(charges, newPart(all, rs, charge))
		}
		if other != nil {
			rest = append(rest, newPart(all, rs, other))
		}
	}
	return charges, rest
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

// charged corrects the decisions of the dry run, each of which saw all requests
// before it, by what the charges say: how much, when, and who is denied after
// all. It reports whether nobody is.
func charged(parts []*part, ds []weir.Decision) bool {
	ok := true
	for _, p := range parts {
		if !p.ok {
			ok = false
		}
		for i, at := range p.of {
			switch d := p.ds[i]; {
			case !d.OK:
				ds[at] = d
			default:
				ds[at].Granted, ds[at].At = d.Granted, d.At
			}
		}
	}
	return ok
}

// giveBack undoes the parts that were charged. It goes on when ctx has ended.
// What cannot be given back stays charged.
func (s *Store) giveBack(ctx context.Context, parts []*part) {
	var ops []*op
	for _, p := range parts {
		if p.err != nil || !p.ok {
			continue
		}
		var back []weir.Request
		for i := range p.rs {
			r, d := &p.rs[i], &p.ds[i]
			switch {
			case p.codes[i] == codeAgain || d.Granted == 0:
			case r.Verb == weir.Reserve:
				back = append(back, weir.Request{Verb: retract, Key: r.Key, Limit: r.Limit, ID: r.ID})
			default:
				back = append(back, weir.Request{Verb: weir.Return, Key: r.Key, Limit: r.Limit, N: d.Granted, At: d.At})
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

// precede has every slot do what comes before a decision and stays when it is a
// denial: carry over the state of an older limit, remember the first sight of a
// key whose limit counts from then on. Few requests have either.
func (s *Store) precede(ctx context.Context, rs []weir.Request, groups [][]int) error {
	var parts []*part
	for _, g := range groups {
		for _, i := range g {
			if len(rs[i].From) > 0 || rs[i].Limit.Config().Initial != nil {
				parts = append(parts, newPart(preceding, rs, g))
				break
			}
		}
	}
	return s.askParts(ctx, parts)
}
