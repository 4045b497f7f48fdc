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

	mu      sync.Mutex
	seen    time.Time
	sales   map[string]*modelSale
	workers map[string]time.Time
}

type modelSale struct {
	sale.Sale
	closed, paused bool
	free, lastRank int64
	turns, left    int64
	unpaid         map[string]int      // returned reservations of earlier epochs
	tickets        []*modelTicket      // one per user
	reservations   []*modelReservation // all reservations of the epoch
	stream         []*modelEntry
}

type modelTicket struct {
	id, user, batch string
	state           sale.TicketState // Waiting, Admitted (also when expired) or Spent
	rank            int64
	until           time.Time
	seen            time.Time // absent from then on; zero if it needs no presence
	parked          bool      // not in the queue
	last            *modelReservation
}

type modelReservation struct {
	sale.Reservation
	returned bool
	wasPaid  bool // returned, and not as unpaid
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
	s := &modelSale{Sale: o.Sale, paused: o.Sale.State == sale.Paused, unpaid: o.Unpaid}
	s.free = s.Stock - o.Units()
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

func (m *Model) SetTerms(_ context.Context, id string, epoch int64, t sale.Terms) error {
	s, _, err := m.at(id, epoch)
	defer m.mu.Unlock()
	switch {
	case t.Validate() != nil:
		return sale.ErrInvalid
	case err == nil && t.Version > s.Version:
		s.Version, s.EndsAt, s.PerUser, s.PayWithin = t.Version, t.EndsAt, t.PerUser, t.PayWithin
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
