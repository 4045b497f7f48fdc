package random

import (
	"context"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func (m *Model) Reserve(_ context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
	if err := a.Validate(); err != nil {
		return sale.ReserveResult{}, err
	}
	s, now, err := m.at(a.Sale, a.Epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.ReserveResult{}, err
	}
	for _, same := range []func(h *modelReservation) bool{
		func(h *modelReservation) bool { return h.User == a.User && h.Ticket == a.Ticket },
		func(h *modelReservation) bool { return h.User == a.User && h.Key == a.Key && a.Key != "" },
	} {
		if h := s.find(same); h != nil {
			return sale.ReserveResult{Repeated: true, Reservation: h.Reservation}, nil
		}
	}
	t := s.ticket(a.User)
	switch {
	case !now.Before(s.EndsAt):
		return sale.ReserveResult{Reason: sale.HasEnded}, nil
	case s.paused:
		return sale.ReserveResult{Reason: sale.IsPaused}, nil
	case now.Before(s.StartsAt):
		return sale.ReserveResult{Reason: sale.NotStarted}, nil
	case t == nil || t.id != a.Ticket || t.state != sale.Admitted || s.status(a.User, now).Absent:
		return sale.ReserveResult{Reason: sale.NotAdmitted}, nil
	case s.status(a.User, now).State == sale.TicketExpired:
		return sale.ReserveResult{Reason: sale.AdmissionExpired}, nil
	case s.hasEnough(a.User, a.MaxUnits, a.Quantity):
		return sale.ReserveResult{Reason: sale.PerUserLimit}, nil
	case s.free == 0:
		return sale.ReserveResult{Reason: sale.IsAllTaken}, nil
	case s.free < int64(a.Quantity):
		return sale.ReserveResult{Reason: sale.FewLeft, Left: s.free}, nil
	}
	return sale.ReserveResult{Reservation: s.take(t, a.Reservation, a.Key, a.Quantity, now)}, nil
}

func (s *modelSale) take(t *modelTicket, id, key string, quantity int, now time.Time) sale.Reservation {
	at := now.Truncate(time.Millisecond)
	r := sale.Reservation{
		ID: id, Sale: s.ID, Epoch: s.Epoch, User: t.user, Slot: 1,
		Ticket: t.id, Key: key, At: at, PayBy: at.Add(s.PayWithin), Quantity: max(1, quantity),
	}
	for slices.ContainsFunc(s.held(t.user), func(o sale.Reservation) bool { return o.Slot == r.Slot }) {
		r.Slot++
	}
	s.free -= r.Units()
	t.state, t.last = sale.Spent, &modelReservation{Reservation: r}
	s.reservations = append(s.reservations, t.last)
	s.stream = append(s.stream, &modelEntry{Entry: sale.Entry{ID: r.ID, Reservation: r}})
	return r
}

func (m *Model) Transfer(_ context.Context, epoch int64, r sale.Reservation) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	s, _, err := m.at(r.Sale, epoch)
	defer m.mu.Unlock()
	if err != nil {
		return false, err
	}
	if h := s.find(func(h *modelReservation) bool { return h.ID == r.ID }); h != nil {
		return h.User == r.User, nil
	}
	other := s.find(func(h *modelReservation) bool {
		return h.User == r.User && (h.Ticket == r.Ticket || h.Key == r.Key && r.Key != "")
	})
	if other != nil || s.units(r.User)+int(r.Units()) > s.PerUser || s.free < r.Units() {
		return false, nil
	}
	used := func(o sale.Reservation) bool { return o.Slot == r.Slot }
	if r.Slot > s.PerUser || slices.ContainsFunc(s.held(r.User), used) {
		for r.Slot = 1; slices.ContainsFunc(s.held(r.User), used); r.Slot++ {
		}
	}
	s.free -= r.Units()
	s.reservations = append(s.reservations, &modelReservation{Reservation: r})
	s.stream = append(s.stream, &modelEntry{Entry: sale.Entry{ID: r.ID, Reservation: r}})
	return true, nil
}

func (m *Model) Return(_ context.Context, id string, epoch int64, user, reservation string, unpaid bool) (bool, error) {
	s, _, err := m.at(id, epoch)
	defer m.mu.Unlock()
	if err != nil {
		return false, err
	}
	h := s.find(func(h *modelReservation) bool { return h.ID == reservation && h.User == user && !h.returned })
	if h == nil {
		return false, nil
	}
	h.returned, h.wasPaid = true, !unpaid
	s.free += h.Units()
	s.Paid = min(s.Paid, s.Stock-s.free)
	return true, nil
}

func (m *Model) Counts(_ context.Context, id string, epoch int64) (sale.Counts, error) {
	s, now, err := m.at(id, epoch)
	defer m.mu.Unlock()
	if err != nil {
		return sale.Counts{}, err
	}
	s.park(now)
	c := sale.Counts{
		Now: now.Truncate(time.Millisecond), Stock: s.Stock, Free: s.free, Outstanding: s.outstanding(now), Turns: s.turns, Left: s.left,
		Waiting: int64(len(s.waiting())), Backlog: int64(len(s.stream)), Paused: s.paused, Paid: s.Paid,
	}
	for _, h := range s.reservations {
		if !h.returned {
			c.Reserved += h.Units()
		}
	}
	return c, nil
}

// Next polls every millisecond while it waits.
func (m *Model) Next(_ context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	if !sale.IsWorkerName(worker) || max < 1 || max > 1000 {
		return nil, sale.ErrInvalid
	}
	for end := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
		if es, err := m.deliver(id, epoch, max); len(es) > 0 || err != nil || !time.Now().Before(end) {
			return es, err
		}
	}
}

func (m *Model) deliver(id string, epoch int64, max int) ([]sale.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.sales[id], m.now()
	if s == nil || s.Epoch != epoch || s.closed && len(s.stream) == 0 {
		return nil, sale.ErrStale
	}
	var out []sale.Entry
	for _, e := range s.stream {
		if len(out) < max && (e.Deliveries == 0 || now.Sub(e.since) >= m.Redeliver) {
			e.since = now
			e.Deliveries++
			out = append(out, e.Entry)
		}
	}
	return out, nil
}

func (m *Model) Ack(_ context.Context, id string, epoch int64, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sales[id]
	if s == nil || s.Epoch != epoch {
		return sale.ErrStale
	}
	s.stream = slices.DeleteFunc(s.stream, func(e *modelEntry) bool { return slices.Contains(ids, e.ID) })
	return nil
}

// Attend implements sale.Inventory.
func (m *Model) Attend(_ context.Context, worker string) (stopped int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sale.IsWorkerName(worker) {
		return 0, sale.ErrInvalid
	}
	now := m.now()
	if m.workers == nil {
		m.workers = map[string]time.Time{}
	}
	m.workers[worker] = now
	for name, at := range m.workers {
		if now.Sub(at) >= sale.WorkerFor {
			delete(m.workers, name)
			stopped++
		}
	}
	return stopped, nil
}

func (m *Model) Delete(_ context.Context, id string, epoch int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sales[id]
	if s == nil || s.Epoch != epoch {
		return sale.ErrStale
	}
	if len(s.stream) > 0 {
		return sale.ErrConflict
	}
	delete(m.sales, id)
	return nil
}
