package random

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A model is a simple ledger in maps.
type model struct {
	sales    map[string]*modelSale
	orders   map[string]*modelOrder
	payments map[string]*modelPayment
}

type modelSale struct {
	stock, sold, paid int64
	perUser, max      int // units of a user, and of an order
	state             sale.State
	why               string
	recovering        bool
	epoch             int64
	added             map[string]int64
}

type modelOrder struct {
	r        sale.Reservation
	state    sale.OrderState
	payment  string
	refunds  int
	returned bool
	refunded bool // by its merchant
	contact  sale.Contact
}

type modelPayment struct {
	reservation string
	amount      int64
	refund      bool
}

func newModel() *model {
	return &model{map[string]*modelSale{}, map[string]*modelOrder{}, map[string]*modelPayment{}}
}

func isOrder(s sale.OrderState) bool { return s != sale.Rejected && s != sale.Lost }
func holds(s sale.OrderState) bool   { return s == sale.PendingPay || s == sale.Paid }

func (m *model) place(epoch int64, r sale.Reservation) sale.OrderResult {
	if o, ok := m.orders[r.ID]; ok {
		return sale.OrderResult{State: o.state}
	}
	s := m.sales[r.Sale]
	if epoch < s.epoch {
		return sale.OrderResult{State: sale.Reserved, Fenced: true}
	}
	o := &modelOrder{r: r, state: sale.PendingPay}
	units := r.Quantity
	for _, x := range m.orders {
		if x.r.Sale == r.Sale && x.r.User == r.User && holds(x.state) {
			units += x.r.Quantity
		}
	}
	if r.Slot > s.perUser || r.Quantity > s.max || units > s.perUser {
		o.state = sale.Rejected
	}
	for _, x := range m.orders {
		if x.r.Sale == r.Sale && (isOrder(x.state) && x.r.Ticket == r.Ticket || holds(x.state) && x.r.User == r.User && x.r.Slot == r.Slot) {
			o.state = sale.Rejected
		}
	}
	if o.state == sale.PendingPay {
		if s.stock-s.sold < r.Units() {
			return sale.OrderResult{State: sale.Reserved}
		}
		s.sold += r.Units()
	}
	m.orders[r.ID] = o
	return sale.OrderResult{State: o.state, New: true}
}

// markLost reports whether the reservation can be lost.
func (m *model) markLost(r sale.Reservation) bool {
	if o, ok := m.orders[r.ID]; ok {
		return !isOrder(o.state)
	}
	m.orders[r.ID] = &modelOrder{r: r, state: sale.Lost}
	return true
}

func (m *model) pay(p sale.Payment, now time.Time) (paid sale.PayResult, want error) {
	o, ok := m.orders[p.Reservation]
	if !ok {
		return paid, sale.ErrNotFound
	}
	if x, ok := m.payments[p.ID]; ok {
		if x.reservation != p.Reservation || x.amount != p.Amount {
			return paid, sale.ErrConflict
		}
		return m.withSoldOut(o, sale.PayResult{RefundDue: x.refund, Repeated: true}), nil
	}
	refund := o.state != sale.PendingPay || now.After(o.r.PayBy) || p.Amount != 9900*o.r.Units()
	m.payments[p.ID] = &modelPayment{p.Reservation, p.Amount, refund}
	if refund {
		o.refunds++
	} else {
		o.state, o.payment = sale.Paid, p.ID
		m.sales[o.r.Sale].paid += o.r.Units()
	}
	return m.withSoldOut(o, sale.PayResult{RefundDue: refund}), nil
}

// withSoldOut sets SoldOut if a payment of o was the last of its sale.
func (m *model) withSoldOut(o *modelOrder, paid sale.PayResult) sale.PayResult {
	if s := m.sales[o.r.Sale]; !paid.RefundDue && s.paid >= s.stock {
		paid.SoldOut = s.stock
	}
	return paid
}

func (m *model) cancel(user, reservation string) error {
	o, ok := m.orders[reservation]
	switch {
	case !ok || o.r.User != user:
		return sale.ErrNotFound
	case o.state == sale.Cancelled:
		return nil
	case o.state != sale.PendingPay:
		return sale.ErrConflict
	}
	o.state = sale.Cancelled
	m.sales[o.r.Sale].sold -= o.r.Units()
	return nil
}

func (m *model) refundBy(merchant, reservation string) error {
	o, ok := m.orders[reservation]
	switch {
	case !ok || merchant != "shop":
		return sale.ErrNotFound
	case o.refunded:
		return nil
	case o.state != sale.Paid:
		return sale.ErrConflict
	}
	m.payments[o.payment].refund = true
	o.state, o.payment, o.refunded = sale.Cancelled, "", true
	o.refunds++
	m.sales[o.r.Sale].sold -= o.r.Units()
	m.sales[o.r.Sale].paid -= o.r.Units()
	return nil
}

func (m *model) setContact(user, reservation string, c sale.Contact) error {
	o, ok := m.orders[reservation]
	switch {
	case c.Validate() != nil:
		return sale.ErrInvalid
	case !ok || o.r.User != user:
		return sale.ErrNotFound
	case !holds(o.state):
		return sale.ErrConflict
	}
	switch {
	case c.Address == (sale.Address{}):
		c.Address = o.contact.Address
	case o.state == sale.Paid && c.Address != o.contact.Address:
		return sale.ErrConflict
	}
	o.contact = c
	return nil
}

// due returns the number of orders that can expire.
func (m *model) due(now time.Time) (n int) {
	for _, o := range m.orders {
		if m.isDue(o, now) {
			n++
		}
	}
	return n
}

func (m *model) isDue(o *modelOrder, now time.Time) bool {
	return o != nil && o.state == sale.PendingPay && now.After(o.r.PayBy)
}

func (m *model) expire(o *modelOrder) {
	o.state = sale.Expired
	m.sales[o.r.Sale].sold -= o.r.Units()
}

func (m *model) unreturned() map[string]bool {
	all := map[string]bool{}
	for id, o := range m.orders {
		if (o.state == sale.Expired || o.state == sale.Cancelled) && !o.returned {
			all[id] = true
		}
	}
	return all
}

func (m *model) setState(id string, to sale.State, why string, from sale.State) error {
	s := m.sales[id]
	was := s.state
	if was == sale.Paused && s.why == sale.Recovering && from == sale.Exposed {
		was = sale.Exposed
	}
	if was != from || was == sale.Ended || was == sale.Drafted && to != sale.Exposed {
		return sale.ErrConflict
	}
	s.state, s.why, s.epoch = to, why, max(s.epoch, 1)
	switch {
	case to == sale.Exposed && s.recovering:
		s.state, s.why = sale.Paused, sale.Recovering
	case to == sale.Exposed:
		s.why = ""
	case to == sale.Ended:
		s.recovering = false
	}
	return nil
}

func (m *model) nextEpoch(id string, epoch int64) error {
	s := m.sales[id]
	if s.epoch != epoch || s.state != sale.Exposed && s.state != sale.Paused {
		return sale.ErrConflict
	}
	s.epoch++
	s.recovering = true
	if s.state == sale.Exposed {
		s.state, s.why = sale.Paused, sale.Recovering
	}
	return nil
}

func (m *model) recovered(id string, epoch int64) error {
	s := m.sales[id]
	if s.epoch != epoch {
		return sale.ErrConflict
	}
	if s.recovering && s.why == sale.Recovering {
		s.state, s.why = sale.Exposed, ""
	}
	s.recovering = false
	return nil
}

func (m *model) addStock(id, key string, units int64) error {
	s := m.sales[id]
	if before, ok := s.added[key]; ok {
		if before != units {
			return sale.ErrConflict
		}
		return nil
	}
	if s.state != sale.Exposed && s.state != sale.Paused {
		return sale.ErrConflict
	}
	s.added[key] = units
	s.stock += units
	return nil
}

func (m *model) totals(id string) (t sale.OrderTotals) {
	for _, o := range m.orders {
		if o.r.Sale != id {
			continue
		}
		t.RefundDue += int64(o.refunds)
		switch o.state {
		case sale.PendingPay:
			t.Pending++
			t.PendingUnits += o.r.Units()
		case sale.Paid:
			t.Paid++
			t.PaidUnits += o.r.Units()
		case sale.Expired:
			t.Expired++
		case sale.Cancelled:
			t.Cancelled++
		case sale.Rejected:
			t.Rejected++
		case sale.Lost:
			t.Lost++
		}
	}
	return t
}
