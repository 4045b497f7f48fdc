package memstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A history holds the concurrent requests of several goroutines about two keys, and
// their results.
type history struct {
	limits [2]weir.Limit // of the keys
	ops    []op
}

// An op is one call: a Do if it has one request.
type op struct {
	keys []int // of the requests
	rs   []weir.Request

	ds           []weir.Decision
	ok           bool
	err          error
	began, ended int64 // in the order of all beginnings and ends
	from, to     int64 // the clock before and after
}

// A world is the state of two keys in a store, as a value.
type world struct {
	state [2][2]int64
	hold  [2]held
}

// held is the one reservation that a key may have in a history; none if n is 0.
type held struct {
	n, at, deadline, actual int64
	settled                 bool
}

// linear looks for an order of the calls in which each has the result of the rules of
// package algo, applied one after the other. In that order no call precedes one that
// ended before it began. This is the search of Wing and Gong, with Lowe's memory of
// visited states.
func (h *history) linear() bool {
	return h.search(0, world{}, map[visit]bool{})
}

type visit struct {
	done  uint16
	world world
}

func (h *history) search(done uint16, w world, seen map[visit]bool) bool {
	if done == 1<<len(h.ops)-1 {
		return true
	}
	if v := (visit{done, w}); seen[v] {
		return false
	} else {
		seen[v] = true
	}
	first := int64(1 << 62) // the first end of what is not done
	for i := range h.ops {
		if done>>i&1 == 0 {
			first = min(first, h.ops[i].ended)
		}
	}
	for i := range h.ops {
		o := &h.ops[i]
		if done>>i&1 == 1 || o.began > first {
			continue
		}
		for _, late := range []bool{false, true} {
			if next := w; h.next(&next, o, late) && h.search(done|1<<i, next, seen) {
				return true
			}
			if len(o.rs) > 1 && o.err == nil {
				break
			}
		}
	}
	return false
}

// next reports whether o can have its result in the world as it was, and makes it the
// world after that. If a call read its clock early, calls with later instants may come
// first. So it may find that a reservation has expired whose TTL ends after its own
// instant.
func (h *history) next(w *world, o *op, late bool) bool {
	if errors.Is(o.err, weir.ErrFull) {
		return true // nothing happened; the cap has its own tests
	}
	now := o.from
	if o.err == nil {
		now = o.ds[0].At.UnixMicro()
	}
	if now < o.from || now > o.to {
		return false
	}
	for _, k := range o.keys {
		if late {
			h.expire(w, k, o.to)
		} else {
			h.expire(w, k, now)
		}
	}
	before, ok := *w, true
	for i := range o.rs {
		res, err := h.answer(w, o.keys[i], &o.rs[i], now)
		switch {
		case err != nil:
			*w = before
			return errors.Is(o.err, err)
		case o.err == nil && o.rs[i].Limit.Spec().Decision(h.await(w, o.keys[i], &o.rs[i], res, now), now) != o.ds[i]:
			return false
		}
		ok = ok && res.OK
	}
	if o.err != nil {
		return false
	}
	if !ok {
		*w = before
	}
	return ok == o.ok
}

// expire gives back what has run out at now.
func (h *history) expire(w *world, k int, now int64) {
	x := w.hold[k]
	if x.n == 0 || x.deadline > now {
		return
	}
	w.hold[k] = held{}
	if !x.settled && h.limits[k].Spec().Rule.Until(w.state[k][:]) > x.deadline {
		h.do(w, k, algo.Ask{Op: algo.Return, Now: x.deadline, N: x.n, At: x.at})
	}
}

// do asks the rule. A bucket that it leaves full is one that was full at that
// instant, and not before.
func (h *history) do(w *world, k int, a algo.Ask) algo.Result {
	s, res := h.limits[k].Spec().Rule.Do(w.state[k][:], a)
	copy(w.state[k][:], s)
	if res.OK && a.Op != algo.Peek && s[0] == 0 && h.limits[k].Algorithm() == "token_bucket" {
		w.state[k] = [2]int64{a.Now, 0}
	}
	return res
}

// answer is one request, one after the other.
func (h *history) answer(w *world, k int, r *weir.Request, now int64) (algo.Result, error) {
	peek := algo.Ask{Op: algo.Peek, Now: now}
	x := &w.hold[k]
	switch r.Verb {
	default:
		return h.do(w, k, algo.Ask{Op: algo.Op(r.Verb), Now: now, N: r.N}), nil
	case weir.Reset:
		w.state[k], *x = [2]int64{}, held{}
		return h.do(w, k, peek), nil
	case weir.Reserve:
		if x.n > 0 {
			res := h.do(w, k, peek)
			res.Granted = x.n
			return res, nil
		}
		res := h.do(w, k, algo.Ask{Op: algo.Take, Now: now, N: r.N})
		if res.OK {
			*x = held{n: r.N, at: now, deadline: now + r.TTL.Microseconds()}
		}
		return res, nil
	case weir.Commit, weir.Cancel:
		if x.n == 0 {
			return algo.Result{}, weir.ErrNoReservation
		}
		a := peek
		if !x.settled {
			x.settled, x.actual = true, r.N
			switch live := h.limits[k].Spec().Rule.Until(w.state[k][:]) > now; {
			case r.N < x.n && live:
				a = algo.Ask{Op: algo.Return, Now: now, N: x.n - r.N, At: x.at}
			case r.N > x.n:
				a = algo.Ask{Op: algo.Charge, Now: now, N: r.N - x.n}
			}
		}
		res := h.do(w, k, a)
		res.Granted = x.actual
		return res, nil
	}
}

// await corrects a result for the open reservation of its key.
func (h *history) await(w *world, k int, r *weir.Request, res algo.Result, now int64) algo.Result {
	x := w.hold[k]
	if x.n == 0 || x.settled {
		return res
	}
	a := algo.Ask{Op: algo.Peek, Now: now, N: r.N}
	if r.Verb == weir.TakeUpTo {
		a.Op = algo.TakeUpTo
	}
	dues := func(yield func(algo.Due) bool) { yield(algo.Due{Deadline: x.deadline, At: x.at, N: x.n}) }
	return algo.Await(h.limits[k].Spec().Rule, w.state[k][:], a, res, dues, nil)
}

// String is the history for a person who wants to know what is wrong with it.
func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "key 0 under %s, key 1 under %s; times are relative\n", h.limits[0], h.limits[1])
	slices.SortFunc(h.ops, func(x, y op) int { return int(x.began - y.began) })
	for _, o := range h.ops {
		fmt.Fprintf(&b, "%3d-%-3d clock %d to %d:", o.began, o.ended, o.from-begin, o.to-begin)
		for i, r := range o.rs {
			fmt.Fprintf(&b, " %s(%d) of key %d", r.Verb, r.N, o.keys[i])
			if r.TTL > 0 {
				fmt.Fprintf(&b, " for %v", r.TTL)
			}
			if d := o.ds[i]; o.err == nil {
				fmt.Fprintf(&b, " = %t, granted %d, remaining %d, retry %v, reset %v at %d;",
					d.OK, d.Granted, d.Remaining, d.RetryAfter, d.ResetAfter, d.At.Sub(time.UnixMicro(begin)).Microseconds())
			}
		}
		if o.err != nil {
			fmt.Fprintf(&b, " = %v", o.err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
