package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// slots is a concurrency limit: a list of the slots in use, each with the end of its
// lease.
type slots struct {
	count, lease int64
	inside       []slot // the soonest to end first, of one end in the order of coming
}

// A slot is n slots taken at once. An anonymous one has no id.
type slot struct {
	id     string
	n, end int64
}

func newSlots(c weir.Concurrency) State {
	return &slots{count: c.Count, lease: c.Lease.Microseconds()}
}

// alive removes the slots whose lease has ended, and returns how many are left.
func (s *slots) alive(now int64) (n int64) {
	s.inside = slices.DeleteFunc(s.inside, func(x slot) bool { return x.end <= now || x.n == 0 })
	for _, x := range s.inside {
		n += x.n
	}
	return n
}

func (s *slots) enter(id string, n, end int64) {
	s.inside = append(s.inside, slot{id, n, end})
	slices.SortStableFunc(s.inside, func(a, b slot) int { return cmp.Compare(a.end, b.end) })
}

// Do decides; the id of an Ask is a name.
func (s *slots) Do(a algo.Ask) algo.Result {
	life := s.lease
	if a.TTL > 0 {
		life = min(a.TTL, algo.MaxSpan)
	}
	if a.ID == 0 || a.Op == algo.Charge {
		return s.ask("", life, a)
	}
	id := strconv.FormatUint(a.ID, 16)
	s.alive(a.Now)
	held := slices.ContainsFunc(s.inside, func(x slot) bool { return x.id == id })
	switch {
	case a.Op == algo.Return && held:
		before := s.alive(a.Now)
		_, _ = s.release(id, a.Now) // it is held
		return s.granted(before-s.alive(a.Now), a.Now)
	case a.Op == algo.Return || held && a.Op == algo.Peek:
		return s.granted(0, a.Now)
	case held && a.N > 0:
		return s.hold(id, a.N, a.Now, life)
	}
	return s.ask(id, life, a)
}

// ask is Do for a slot with an id and a lease.
func (s *slots) ask(id string, life int64, a algo.Ask) algo.Result {
	used := s.alive(a.Now)
	n, ok := fits(a, s.count-used)
	r := algo.Result{OK: ok, Granted: n}
	switch {
	case !ok && missing(a) > s.count:
		r.Retry = algo.Never
	case !ok:
		r.Retry = s.wait(used+missing(a)-s.count, a.Now)
	case a.Op == algo.Return:
		r.Granted = s.leave(a.N, a.At)
	case n > 0:
		s.enter(id, min(n, most-used), a.Now+life)
	}
	r.Balance = s.count - s.alive(a.Now)
	r.Reset = max(0, s.Until()-a.Now)
	return r
}

// wait is the time until n slots have ended by themselves.
func (s *slots) wait(n, now int64) int64 {
	for _, x := range s.inside {
		if n -= x.n; n <= 0 {
			return x.end - now
		}
	}
	panic("model: slots that wait for more than are inside")
}

// leave frees n anonymous slots, those first that would end first; if at is not
// 0, only those whose lease began then. It says how many there were.
func (s *slots) leave(n, at int64) (gone int64) {
	for i := range s.inside {
		if x := &s.inside[i]; x.id == "" && (at == 0 || at == x.end-s.lease) {
			g := min(n-gone, x.n)
			x.n -= g
			gone += g
		}
	}
	return gone
}

// hold takes n slots under an id for life, or keeps those that it has alive.
func (s *slots) hold(id string, n, now, life int64) algo.Result {
	s.alive(now)
	i := slices.IndexFunc(s.inside, func(x slot) bool { return x.id == id })
	if i < 0 {
		return s.ask(id, life, algo.Ask{Op: algo.Take, Now: now, N: n})
	}
	n = s.inside[i].n
	s.inside = slices.Delete(s.inside, i, i+1)
	s.enter(id, n, now+life)
	return s.granted(n, now)
}

// release frees the slots of an id.
func (s *slots) release(id string, now int64) (algo.Result, error) {
	s.alive(now)
	i := slices.IndexFunc(s.inside, func(x slot) bool { return x.id == id })
	if i < 0 {
		return algo.Result{}, fmt.Errorf("%w: %w", weir.ErrNoReservation, errNoReservation)
	}
	s.inside = slices.Delete(s.inside, i, i+1)
	return s.granted(0, now), nil
}

// granted returns the current result, with n granted.
func (s *slots) granted(n, now int64) algo.Result {
	r := s.Do(algo.Ask{Op: algo.Peek, Now: now})
	r.Granted = n
	return r
}

func (s *slots) Until() int64 {
	until := int64(0)
	for _, x := range s.inside {
		if x.n > 0 {
			until = max(until, x.end)
		}
	}
	return until
}

func (s *slots) Clone() State {
	return &slots{s.count, s.lease, slices.Clone(s.inside)}
}
