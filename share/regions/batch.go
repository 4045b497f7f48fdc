package regions

import (
	"context"
	"errors"

	"github.com/floodweir/weir"
)

// errRest means that the store of the rest returned an error.
var errRest = errors.New("regions: the rest was not decided")

// A batch is a call of DoAll. Each request is decided by the own part or by the rest.
type batch struct {
	s       *Store
	rs      []weir.Request
	limits  []division
	divided []bool
	rest    []bool // the rest decides
	moved   []bool // after the own part has denied
	err     error
}

func newBatch(s *Store, rs []weir.Request) *batch {
	b := &batch{
		s: s, rs: rs, limits: make([]division, len(rs)), divided: make([]bool, len(rs)),
		rest: make([]bool, len(rs)), moved: make([]bool, len(rs)),
	}
	for i := range rs {
		if s.divided != nil && !s.divided(rs[i].Key) {
			b.limits[i].own = rs[i].Limit
			continue
		}
		b.limits[i], b.divided[i] = s.limits.of(rs[i].Limit), true
		if b.err = b.limits[i].err; b.err != nil {
			return b
		}
		b.rest[i] = b.limits[i].own.IsZero()
	}
	return b
}

// move moves the denied requests to the rest. It reports whether the rest may change the result.
func (b *batch) move(ds []weir.Decision) bool {
	for i := range ds {
		switch {
		case ds[i].OK:
		case b.rest[i] || !b.divided[i] || b.limits[i].rest.IsZero() || !asks(&b.rs[i]):
			return false
		}
	}
	for i := range ds {
		b.moved[i] = !ds[i].OK
		b.rest[i] = b.rest[i] || b.moved[i]
	}
	return true
}

// try decides all requests, all or nothing: those of the rest first.
func (b *batch) try(ctx context.Context, ds []weir.Decision) (bool, error) {
	rest, restAt := b.side(true)
	own, ownAt := b.side(false)
	answers := make([]weir.Decision, len(rest))
	ok := true
	if len(rest) > 0 {
		var err error
		if ok, err = b.s.rest.DoAll(ctx, rest, answers); err != nil {
			return false, errors.Join(errRest, err)
		}
		place(ds, answers, restAt)
	}
	if len(own) == 0 {
		return ok, nil
	}
	replies := make([]weir.Decision, len(own))
	if !ok { // the decision of each on its own
		for i := range own {
			own[i] = weir.Request{Verb: weir.Peek, Key: own[i].Key, Limit: own[i].Limit, N: own[i].N}
		}
	}
	admitted, err := b.s.own.DoAll(ctx, own, replies)
	place(ds, replies, ownAt)
	if err == nil && admitted && ok {
		return true, nil
	}
	if ok {
		for i := range rest {
			if failed := b.giveBack(ctx, rest[i], answers[i]); failed != nil && err == nil {
				err = failed
			}
		}
	}
	return false, err
}

// giveBack returns what a request to the rest took.
func (b *batch) giveBack(ctx context.Context, r weir.Request, d weir.Decision) error {
	if r.Verb > weir.TakeUpTo && r.Verb != weir.Charge || d.Granted == 0 {
		return nil
	}
	_, err := b.s.rest.Do(context.WithoutCancel(ctx), weir.Request{Verb: weir.Return, Key: r.Key, Limit: r.Limit, N: d.Granted, At: d.At})
	return err
}

// side returns the requests that the rest decides, or the others, and their places.
func (b *batch) side(rest bool) (rs []weir.Request, at []int) {
	for i, r := range b.rs {
		switch {
		case b.rest[i] != rest:
			continue
		case rest:
			r = b.s.under(r, b.limits[i].rest, ofRest)
		case b.divided[i]:
			r = b.s.under(r, b.limits[i].own, ofOwn)
		}
		rs, at = append(rs, r), append(at, i)
	}
	return rs, at
}

func place(ds, from []weir.Decision, at []int) {
	for i, to := range at {
		ds[to] = from[i]
	}
}
