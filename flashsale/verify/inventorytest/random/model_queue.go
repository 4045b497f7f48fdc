package random

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// returned returns how many reservations a user returned as unpaid.
func (s *modelSale) returned(user string) int {
	n := s.unpaid[user]
	for _, h := range s.reservations {
		if h.User == user && h.returned && !h.wasPaid {
			n++
		}
	}
	return n
}

// units returns how many units a user holds.
func (s *modelSale) units(user string) (n int) {
	for _, r := range s.held(user) {
		n += int(r.Units())
	}
	return n
}

// hasEnough reports whether a user cannot reserve so many units in this epoch.
func (s *modelSale) hasEnough(user string, most, quantity int) bool {
	units := s.units(user) + max(1, quantity)
	return units > s.PerUser || units > most && most != 0 || s.returned(user) >= sale.MaxUnpaid
}

// park counts the tickets that became absent.
func (s *modelSale) park(now time.Time) {
	for _, t := range s.tickets {
		if t.state == sale.Waiting && !t.parked && !now.Before(t.seen) {
			t.parked = true
			s.left++
		}
	}
}

// waiting returns the present tickets in the queue. It needs a call of park.
func (s *modelSale) waiting() (ts []*modelTicket) {
	for _, t := range s.tickets {
		if t.state == sale.Waiting && !t.parked {
			ts = append(ts, t)
		}
	}
	slices.SortFunc(ts, func(a, b *modelTicket) int { return cmp.Compare(a.rank, b.rank) })
	return ts
}

func (s *modelSale) ahead(rank int64) (n int64) {
	for _, t := range s.waiting() {
		if t.rank < rank {
			n++
		}
	}
	return n
}

func (s *modelSale) outstanding(now time.Time) (n int64) {
	for _, t := range s.tickets {
		if t.state == sale.Admitted && now.Before(t.until) && (t.seen.IsZero() || now.Before(t.seen)) {
			n++
		}
	}
	return n
}

func (s *modelSale) status(user string, now time.Time) sale.TicketStatus {
	st := sale.TicketStatus{State: sale.NoTicket, Reserved: s.held(user)}
	t := s.ticket(user)
	if t == nil {
		return st
	}
	st.State, st.Ticket, st.Rank = t.state, t.id, t.rank
	attended := !t.seen.IsZero()
	switch {
	case t.state == sale.Spent:
		st.Last = &t.last.Reservation
	case t.state == sale.Admitted && !now.Before(t.until) && (!attended || !t.seen.Before(t.until)),
		attended && !now.Before(t.seen.Add(sale.ReclaimFor)):
		st.State = sale.TicketExpired
	case t.state == sale.Waiting, attended && !now.Before(t.seen):
		st.State, st.Ahead, st.Absent = sale.Waiting, s.ahead(t.rank), !now.Before(t.seen)
		st.Poll = sale.PollInterval(st.Ahead, int64(len(s.waiting())))
	default:
		st.Batch, st.Until, st.Poll = t.batch, t.until, sale.TurnPoll
	}
	return st
}

func (m *Model) Join(_ context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	if err := j.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	s, now, err := m.at(j.Sale, j.Epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.TicketStatus{}, err
	}
	s.park(now)
	st := s.status(j.User, now)
	old := s.ticket(j.User)
	poll := sale.PollRequest{User: j.User, Reservation: j.Reservation, MaxBacklog: j.MaxBacklog, MaxUnits: j.MaxUnits, Quantity: j.Quantity}
	if st.State == sale.Waiting || st.State == sale.Admitted {
		return s.poll(poll, now), nil
	}
	used := func(h *modelReservation) bool { return h.User == j.User && h.Ticket == j.Ticket }
	if old != nil && old.id == j.Ticket || s.find(used) != nil {
		return st, nil
	}
	if st.Reason = s.joinRefused(j, now); st.Reason != sale.OK {
		return st, nil
	}
	t := &modelTicket{id: j.Ticket, user: j.User, state: sale.Waiting, parked: true}
	penalty := int64(0)
	if n := s.returned(j.User); n > 0 {
		penalty = s.PayWithin.Microseconds() * []int64{1, 2, 4, 8}[min(n, 4)-1]
	}
	switch {
	case j.Rank > 0 && old == nil:
		t.rank, penalty = j.Rank, 0
	case j.Lot > 0 && s.Queue == sale.Shuffled && now.Before(s.StartsAt):
		t.rank = j.Lot + penalty
	default:
		t.rank = max(s.lastRank+1, now.UnixMicro()) + penalty
	}
	s.unusedRank(t)
	if penalty == 0 {
		s.lastRank = max(s.lastRank, t.rank)
	}
	s.tickets = slices.DeleteFunc(s.tickets, func(o *modelTicket) bool { return o == old })
	s.tickets = append(s.tickets, t)
	if t.parked = false; j.Batch != "" {
		t.state, t.batch, t.until = sale.Admitted, j.Batch, j.Until.UTC().Truncate(time.Millisecond)
		return s.status(j.User, now), nil
	}
	t.seen = now.Add(time.Second)
	return s.poll(poll, now), nil
}

func (s *modelSale) joinRefused(j sale.JoinRequest, now time.Time) sale.Reason {
	opens := s.StartsAt
	if s.Queue == sale.Shuffled && j.Batch == "" {
		opens = opens.Add(-s.Lobby)
	}
	switch {
	case !now.Before(s.EndsAt):
		return sale.HasEnded
	case s.paused && j.Batch != "":
		return sale.IsPaused
	case now.Before(opens):
		return sale.NotStarted
	case s.hasEnough(j.User, j.MaxUnits, j.Quantity):
		return sale.PerUserLimit
	case j.Batch == "" && j.Max > 0 && int64(len(s.waiting())) >= j.Max:
		return sale.QueueFull
	}
	return sale.OK
}

// unusedRank raises the rank of a parked ticket to one that no present ticket has.
func (s *modelSale) unusedRank(t *modelTicket) {
	for slices.ContainsFunc(s.waiting(), func(o *modelTicket) bool { return o.rank == t.rank }) {
		t.rank++
	}
}

func (m *Model) Poll(_ context.Context, p sale.PollRequest) (sale.TicketStatus, error) {
	if err := p.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	s, now, err := m.at(p.Sale, p.Epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.TicketStatus{}, err
	}
	s.park(now)
	return s.poll(p, now), nil
}

func (s *modelSale) poll(p sale.PollRequest, now time.Time) sale.TicketStatus {
	st, t := s.status(p.User, now), s.ticket(p.User)
	if st.State != sale.Waiting && st.State != sale.Admitted || st.State == sale.Admitted && t.seen.IsZero() && p.Reservation == "" {
		return st
	}
	if s.hasEnough(p.User, p.MaxUnits, p.Quantity) {
		st.Reason = sale.PerUserLimit
		return st
	}
	if st.Absent {
		if t.parked {
			s.left--
		}
		t.state, t.parked, t.batch, t.until = sale.Waiting, true, "", time.Time{}
		s.unusedRank(t)
		t.parked = false
	}
	turns, queued := s.turns, t.state == sale.Waiting
	ahead := int64(0)
	if t.state == sale.Waiting {
		ahead = s.ahead(t.rank)
	}
	open := !s.paused && !now.Before(s.StartsAt) && now.Before(s.EndsAt) && (p.MaxBacklog == 0 || int64(len(s.stream))+ahead < p.MaxBacklog)
	at, few := now.Truncate(time.Millisecond), int64(0)
	switch units := int64(max(1, p.Quantity)); {
	case open && p.Reservation != "" && ahead+units <= s.free:
		s.take(t, p.Reservation, "", p.Quantity, now)
	case open && p.Reservation != "" && ahead == 0:
		few = s.free
	case open && p.Reservation == "" && t.state == sale.Waiting && ahead < int64(s.Headroom)*s.free-s.outstanding(now):
		s.turns++
		t.state, t.batch, t.until = sale.Admitted, t.id, now.Truncate(time.Millisecond).Add(s.TokenFor)
	}
	switch {
	case t.state == sale.Waiting && few > 0:
		t.seen, t.parked = at, true
		s.left++
	case t.state == sale.Waiting:
		t.seen = at.Add(sale.Grace(sale.PollInterval(ahead, int64(len(s.waiting())))))
	case t.state == sale.Admitted && !t.seen.IsZero():
		t.seen = at.Add(sale.Grace(sale.TurnPoll))
	}
	after := s.status(p.User, now)
	after.Restored, after.NewTurn = st.Absent && !after.Absent, s.turns > turns || queued && t.state == sale.Spent
	if few > 0 {
		after.Reason, after.Left = sale.FewLeft, few
	}
	return after
}

func (m *Model) Status(_ context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	s, now, err := m.at(id, epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.TicketStatus{}, err
	}
	s.park(now)
	return s.status(user, now), nil
}
