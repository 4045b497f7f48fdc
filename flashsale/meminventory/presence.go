package meminventory

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Bounds on how many absent users one call removes from the queue.
const (
	parkPerCall  = 64
	parkPerCount = 2000
)

// park removes up to max absent users from the queue.
func (s *state) park(now int64, max int) {
	for range max {
		p := s.queue.overdue(now)
		if p == nil {
			return
		}
		s.queue.remove(p)
		s.left++
	}
}

// situation is the state of a ticket at a time.
type situation uint8

const (
	hasNone situation = iota
	isWaiting
	isAbsent
	isAdmitted
	isSpent
	isOver
)

func (s *state) situation(p *userState, now int64) situation {
	if p == nil {
		return hasNone
	}
	switch p.state {
	case spent:
		return isSpent
	case waiting, admitted:
		switch {
		case p.state == admitted && now >= p.until && (p.seen == 0 || p.until <= p.seen):
			return isOver
		case p.seen != 0 && now >= p.seen+sale.ReclaimFor.Microseconds():
			return isOver
		case p.seen != 0 && now >= p.seen:
			return isAbsent
		case p.state == admitted:
			return isAdmitted
		}
		return isWaiting
	}
	return hasNone
}

// poll makes a ticket present and does what its turn allows. It also returns a new reservation.
func (s *state) poll(q *sale.PollRequest, now int64) (sale.TicketStatus, *reservation) {
	s.park(now, parkPerCall)
	p := s.users[q.User]
	at := s.situation(p, now)
	if at != isWaiting && at != isAbsent && at != isAdmitted || p.state == admitted && p.seen == 0 && q.Reservation == "" {
		return s.status(p, now), nil
	}
	if s.atLimit(p, q.MaxUnits, q.Quantity) {
		st := s.status(p, now)
		st.Reason = sale.PerUserLimit
		return st, nil
	}
	if at == isAbsent {
		s.restore(p)
	}
	turns, queued := s.turns, p.state == waiting
	h, left := s.advance(p, q, now)
	if left > 0 && p.state == waiting {
		s.yield(p, now)
	} else {
		s.see(p, now)
	}
	st := s.status(p, now)
	st.Restored, st.NewTurn = at == isAbsent && !st.Absent, s.turns > turns || queued && h != nil
	if left > 0 {
		st.Reason, st.Left = sale.FewLeft, left
	}
	return st, h
}

// yield makes a waiting ticket absent. It keeps its rank, and does not hold up those behind it.
func (s *state) yield(p *userState, now int64) {
	s.queue.remove(p)
	s.left++
	p.seen = now / 1000 * 1000
}

// restore puts an absent ticket back into the queue.
func (s *state) restore(p *userState) {
	if p.state == waiting && p.place.at > 0 {
		return // it was not removed yet
	}
	if p.state == waiting {
		s.left--
	}
	p.state, p.batch, p.until, p.group = waiting, "", 0, nil
	for s.queue.has(p.rank) {
		p.rank++
	}
	s.queue.add(p)
}

// advance reserves units for a present ticket, or admits it, if its turn has come. If too few are
// free for the first ticket, it returns how many.
func (s *state) advance(p *userState, q *sale.PollRequest, now int64) (h *reservation, left int64) {
	if s.paused || now < s.starts || now >= s.ends {
		return nil, 0
	}
	ahead := int64(0)
	if p.state == waiting {
		ahead = s.queue.ahead(p.rank)
	}
	if q.MaxBacklog > 0 && ahead >= q.MaxBacklog-int64(len(s.stream.entries)) {
		return nil, 0
	}
	if q.Reservation != "" {
		units := quantity(q.Quantity)
		switch {
		case ahead+units <= s.free:
			return s.take(p, q.Reservation, "", units, now), 0
		case ahead == 0:
			return nil, s.free
		}
		return nil, 0
	}
	s.tokens.expire(now)
	if p.state == waiting && ahead < s.headroom*s.free-s.tokens.n {
		s.queue.remove(p)
		s.turns++
		p.state, p.batch, p.until = admitted, p.ticket, now/1000*1000+s.tokenFor
	}
	return nil, 0
}

// see sets the deadline of a ticket's presence.
func (s *state) see(p *userState, now int64) {
	now = now / 1000 * 1000
	switch {
	case p.state == waiting:
		p.seen = now + sale.Grace(s.interval(p)).Microseconds()
		s.queue.delay(p)
	case p.state == admitted && p.seen != 0:
		s.tokens.expire(now)
		if p.group != nil {
			s.tokens.use(p.group)
		}
		p.seen = now + sale.Grace(sale.TurnPoll).Microseconds()
		if end := min(p.until, p.seen); end > now {
			p.group = s.tokens.add(end)
		}
	}
}

// interval returns when a waiting ticket polls again.
func (s *state) interval(p *userState) time.Duration {
	return sale.PollInterval(s.queue.ahead(p.rank), int64(s.queue.len()))
}
