package random

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
)

// A Model is a simple sale.Inventory: it scans all its state in each call.
type Model struct {
	Clock     *inventorytest.Clock
	Redeliver time.Duration

	mu    sync.Mutex
	seen  time.Time
	sales map[string]*modelSale
}

type modelSale struct {
	sale.Sale
	closed, paused bool
	free, lastRank int64
	tickets        []*modelTicket      // one per user
	reservations   []*modelReservation // all reservations of the epoch
	stream         []*modelEntry
}

type modelTicket struct {
	id, user, batch string
	state           sale.TicketState // Waiting, Admitted (also when expired) or Spent
	rank            int64
	until           time.Time
	last            *modelReservation
}

type modelReservation struct {
	sale.Reservation
	returned bool
}

type modelEntry struct {
	sale.Entry
	since time.Time // time of the last delivery
}

func (m *Model) now() time.Time {
	if now := m.Clock.Now(); now.After(m.seen) {
		m.seen = now
	}
	return m.seen.UTC()
}

// at locks the Model and returns the sale if it is open at epoch.
func (m *Model) at(id string, epoch int64) (s *modelSale, now time.Time, err error) {
	m.mu.Lock()
	s = m.sales[id]
	if s == nil || s.Epoch != epoch || s.closed {
		return nil, now, sale.ErrStale
	}
	return s, m.now(), nil
}

func (s *modelSale) ticket(user string) *modelTicket {
	i := slices.IndexFunc(s.tickets, func(t *modelTicket) bool { return t.user == user })
	if i < 0 {
		return nil
	}
	return s.tickets[i]
}

func (s *modelSale) find(is func(h *modelReservation) bool) *modelReservation {
	if i := slices.IndexFunc(s.reservations, is); i >= 0 {
		return s.reservations[i]
	}
	return nil
}

func (s *modelSale) held(user string) (rs []sale.Reservation) {
	for _, h := range s.reservations {
		if h.User == user && !h.returned {
			rs = append(rs, h.Reservation)
		}
	}
	slices.SortFunc(rs, func(a, b sale.Reservation) int { return cmp.Compare(a.Slot, b.Slot) })
	return rs
}

// hasEnough reports whether a user can reserve no more units in this epoch.
func (s *modelSale) hasEnough(user string) bool {
	got, held := 0, 0
	for _, h := range s.reservations {
		if h.User == user {
			got++
			if !h.returned {
				held++
			}
		}
	}
	return held >= s.PerUser || got >= sale.MaxReservations
}

func (s *modelSale) waiting() (ts []*modelTicket) {
	for _, t := range s.tickets {
		if t.state == sale.Waiting {
			ts = append(ts, t)
		}
	}
	slices.SortFunc(ts, func(a, b *modelTicket) int { return cmp.Compare(a.rank, b.rank) })
	return ts
}

func (s *modelSale) status(user string, now time.Time) sale.TicketStatus {
	st := sale.TicketStatus{State: sale.NoTicket, Reserved: s.held(user)}
	t := s.ticket(user)
	if t == nil {
		return st
	}
	st.State, st.Ticket, st.Rank = t.state, t.id, t.rank
	switch {
	case t.state == sale.Waiting:
		st.Ahead = int64(slices.Index(s.waiting(), t))
	case t.state == sale.Spent:
		st.Last = &t.last.Reservation
	case !now.Before(t.until):
		st.State = sale.TicketExpired
	default:
		st.Batch, st.Until = t.batch, t.until
	}
	return st
}

func (m *Model) Open(_ context.Context, o sale.InitialState) error {
	if err := o.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sales[o.Sale.ID]; s != nil && s.Epoch >= o.Sale.Epoch {
		if s.Epoch > o.Sale.Epoch || s.closed {
			return sale.ErrStale
		}
		return nil
	} else if s != nil && len(s.stream) > 0 {
		return sale.ErrConflict
	}
	s := &modelSale{Sale: o.Sale, paused: o.Sale.State == sale.Paused}
	s.free = s.Stock - int64(len(o.Reserved)+len(o.Pending))
	for _, r := range slices.Concat(o.Reserved, o.Pending) {
		s.reservations = append(s.reservations, &modelReservation{Reservation: r})
	}
	for _, r := range o.Pending {
		s.stream = append(s.stream, &modelEntry{Entry: sale.Entry{ID: r.ID, Reservation: r}})
	}
	if m.sales == nil {
		m.sales = make(map[string]*modelSale)
	}
	m.sales[s.ID] = s
	return nil
}

func (m *Model) Close(_ context.Context, id string, epoch int64) error {
	if s, _, err := m.at(id, epoch); err == nil {
		s.closed = true
	}
	m.mu.Unlock()
	return nil
}

func (m *Model) SetPaused(_ context.Context, id string, epoch int64, paused bool) error {
	s, _, err := m.at(id, epoch)
	defer m.mu.Unlock()
	if err == nil {
		s.paused = paused
	}
	return err
}

func (m *Model) SetStock(_ context.Context, id string, epoch int64, stock int64) error {
	s, _, err := m.at(id, epoch)
	defer m.mu.Unlock()
	switch {
	case stock < 0 || err == nil && stock < s.Stock:
		return sale.ErrInvalid
	case err == nil:
		s.free += stock - s.Stock
		s.Stock = stock
	}
	return err
}

func (m *Model) SetPaid(_ context.Context, id string, epoch int64, paid int64) error {
	s, _, err := m.at(id, epoch)
	defer m.mu.Unlock()
	switch {
	case paid < 0 || paid > 1<<53:
		return sale.ErrInvalid
	case err == nil:
		s.Paid = max(s.Paid, paid)
	}
	return err
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
	st := s.status(j.User, now)
	old := s.ticket(j.User)
	if st.State == sale.Waiting || st.State == sale.Admitted || old != nil && old.id == j.Ticket {
		return st, nil
	}
	opens := s.StartsAt
	if s.Queue == sale.Shuffled && j.Batch == "" {
		opens = opens.Add(-s.Lobby)
	}
	switch {
	case !now.Before(s.EndsAt):
		st.Reason = sale.HasEnded
	case s.paused && j.Batch != "":
		st.Reason = sale.IsPaused
	case now.Before(opens):
		st.Reason = sale.NotStarted
	case s.hasEnough(j.User):
		st.Reason = sale.PerUserLimit
	case j.Batch == "" && j.Max > 0 && int64(len(s.waiting())) >= j.Max:
		st.Reason = sale.QueueFull
	}
	if st.Reason != sale.OK {
		return st, nil
	}
	t := &modelTicket{id: j.Ticket, user: j.User, state: sale.Waiting}
	taken := func(o *modelTicket) bool { return o.rank == t.rank }
	switch {
	case j.Rank > 0 && old == nil:
		t.rank = j.Rank
	case j.Lot > 0 && s.Queue == sale.Shuffled && now.Before(s.StartsAt):
		t.rank = j.Lot
	default:
		t.rank = max(s.lastRank+1, now.UnixMicro())
	}
	for slices.ContainsFunc(s.waiting(), taken) {
		t.rank++
	}
	s.lastRank = max(s.lastRank, t.rank)
	if j.Batch != "" {
		t.state, t.batch, t.until = sale.Admitted, j.Batch, j.Until.UTC().Truncate(time.Millisecond)
	}
	s.tickets = slices.DeleteFunc(s.tickets, func(o *modelTicket) bool { return o == old })
	s.tickets = append(s.tickets, t)
	return s.status(j.User, now), nil
}

func (m *Model) Status(_ context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	s, now, err := m.at(id, epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.TicketStatus{}, err
	}
	return s.status(user, now), nil
}

func (m *Model) Admit(_ context.Context, id string, epoch int64, batch string, n int, until time.Time) (int, error) {
	if n < 1 || n > 1000 || batch == "" || len(batch) > 64 {
		return 0, sale.ErrInvalid
	}
	s, now, err := m.at(id, epoch)
	defer m.mu.Unlock()
	until = until.UTC().Truncate(time.Millisecond)
	if err != nil || s.paused || now.Before(s.StartsAt) || !now.Before(s.EndsAt) || !now.Before(until) {
		return 0, err
	}
	line := s.waiting()
	line = line[:min(n, len(line))]
	for _, t := range line {
		t.state, t.batch, t.until = sale.Admitted, batch, until
	}
	return len(line), nil
}
