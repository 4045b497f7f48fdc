package auditor

import (
	"context"
	"database/sql"
	"encoding/json"
)

// ledgerRows are all rows of one database snapshot.
type ledgerRows struct {
	sales       []saleRow
	orders      map[string][]orderRow // by sale
	byID        map[string]*orderRow
	movements   map[string][]movementRow // by sale
	payments    map[string][]paymentRow  // by reservation
	checkouts   map[string]checkoutRow   // by payment
	deadLetters map[string]bool          // by reservation
}

func (l *ledgerRows) sale(id string) *saleRow {
	for i := range l.sales {
		if l.sales[i].id == id {
			return &l.sales[i]
		}
	}
	return nil
}

// inspect reads every row and checks it.
func (a *Auditor) inspect(ctx context.Context) (*ledgerRows, error) {
	l := &ledgerRows{orders: map[string][]orderRow{}, byID: map[string]*orderRow{}, movements: map[string][]movementRow{},
		payments: map[string][]paymentRow{}, checkouts: map[string]checkoutRow{}, deadLetters: map[string]bool{}}
	var orders []orderRow
	err := a.db.snapshot(ctx, func(tx *sql.Tx) (err error) {
		if l.sales, err = a.db.sales(ctx, tx, a.config.Sales); err != nil {
			return err
		}
		if orders, err = a.db.orders(ctx, tx); err != nil {
			return err
		}
		moved, err := a.db.movements(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range moved {
			l.movements[m.sale] = append(l.movements[m.sale], m)
		}
		paid, err := a.db.payments(ctx, tx)
		if err != nil {
			return err
		}
		for _, p := range paid {
			l.payments[p.reservation] = append(l.payments[p.reservation], p)
		}
		opened, err := a.db.checkouts(ctx, tx)
		if err != nil {
			return err
		}
		for _, c := range opened {
			l.checkouts[c.payment] = c
		}
		letters, err := a.db.deadLetters(ctx, tx)
		for _, text := range letters {
			var r struct {
				ID string `json:"id"`
			}
			if json.Unmarshal([]byte(text), &r) == nil {
				l.deadLetters[r.ID] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		l.orders[o.sale] = append(l.orders[o.sale], o)
	}
	for i := range l.sales {
		s := &l.sales[i]
		a.inspectOrders(s, l)
		a.inspectMovements(s, l)
	}
	return l, nil
}

// inspectOrders checks each order of a sale, alone and against the others.
func (a *Auditor) inspectOrders(s *saleRow, l *ledgerRows) {
	b := a.records
	tickets := map[string]string{}
	keys := map[[2]string]string{}
	slots := map[string]map[int64]string{}
	held := map[string]int64{}
	orders := l.orders[s.id]
	for i := range orders {
		o := &orders[i]
		other, twice := l.byID[o.id]
		b.check(OneOrder, !twice, "sale %s: reservation %s has two rows", s.id, o.id)
		if !twice || !other.live() {
			l.byID[o.id] = o
		}
		b.check(OneOrder, o.epoch >= 1 && o.epoch <= s.epoch, "sale %s: order %s has epoch %d, the sale is at epoch %d", s.id, o.id, o.epoch, s.epoch)
		a.finalState(o)
		a.inspectPayments(s, o, l.payments[o.id], l.checkouts)
		if o.state != "lost" { // a lost reservation was only claimed by a receipt
			b.check(InTime, o.at >= s.starts && o.at < s.ends, "sale %s: reservation %s was granted at %s, want between %s and %s",
				s.id, o.id, at(o.at), at(s.starts), at(s.ends))
		}
		if !o.isOrder() {
			continue
		}
		b.check(OneOrder, !l.deadLetters[o.id], "sale %s: reservation %s is an order and a dead letter", s.id, o.id)
		first, used := tickets[o.ticket]
		b.check(OneOrder, !used, "sale %s: ticket %s has two orders: %s and %s", s.id, o.ticket, first, o.id)
		tickets[o.ticket] = o.id
		if o.key != "" {
			k := [2]string{o.user, o.key}
			first, used := keys[k]
			b.check(Idempotency, !used, "sale %s: user %s has two orders for one key: %s and %s", s.id, o.user, first, o.id)
			keys[k] = o.id
		}
		b.check(PayOrTimeout, o.price == s.price*o.quantity, "sale %s: order %s of %d units has price %d, want %d", s.id, o.id, o.quantity, o.price, s.price*o.quantity)
		b.check(PerUser, o.quantity >= 1 && o.quantity <= s.maxQuantity, "sale %s: order %s has %d units, want 1 to %d", s.id, o.id, o.quantity, s.maxQuantity)
		if !o.live() {
			continue
		}
		held[o.user] += o.quantity
		if slots[o.user] == nil {
			slots[o.user] = map[int64]string{}
		}
		first, used = slots[o.user][o.slot]
		b.check(PerUser, !used && o.slot >= 1 && o.slot <= s.perUser, "sale %s: user %s has slot %d of %d; orders: %s %s",
			s.id, o.user, o.slot, s.perUser, first, o.id)
		slots[o.user][o.slot] = o.id
	}
	for user, n := range held {
		b.check(PerUser, n <= s.perUser, "sale %s: user %s holds %d units, the limit is %d", s.id, user, n, s.perUser)
	}
}

// maxEnded is the maximum number of ended orders that are kept between two inspections.
const maxEnded = 1_000_000

// finalState checks that a final state of an order does not change, except by a refund.
func (a *Auditor) finalState(o *orderRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, seen := a.ended[o.id]
	switch {
	case before == "paid" && o.refunded():
		a.records.passed(PayOrTimeout, 1)
		a.ended[o.id] = o.state
	case seen:
		a.records.check(PayOrTimeout, before == o.state, "sale %s: order %s changed from %s to %s", o.sale, o.id, before, o.state)
	case o.state == "pending_pay", len(a.ended) >= maxEnded:
	default:
		a.ended[o.id] = o.state
	}
}

func (a *Auditor) inspectPayments(s *saleRow, o *orderRow, payments []paymentRow, checkouts map[string]checkoutRow) {
	b := a.records
	var accepted, back int
	for _, p := range payments {
		c, atProvider := checkouts[p.id]
		if atProvider {
			b.check(PayOrTimeout, c.reservation == p.reservation && c.paid == p.amount && c.state == "paid" && c.waits == 0,
				"sale %s: payment %s of %d for %s is recorded, its provider reported %d for %s (%s)", s.id, p.id, p.amount, p.reservation, c.paid, c.reservation, c.state)
			b.check(PayOrTimeout, (c.refund != "") == (p.state == "refund_due"), "sale %s: payment %s is %s, its refund is %q", s.id, p.id, p.state, c.refund)
		}
		if p.state != "accepted" {
			if p.amount == o.price {
				back++
			}
			continue
		}
		accepted++
		b.check(PayOrTimeout, p.amount == o.price, "sale %s: order %s with price %d was paid with %d", s.id, o.id, o.price, p.amount)
		b.check(PayOrTimeout, p.at <= o.payBy || atProvider, "sale %s: order %s has payment deadline %s, payment %s was accepted at %s", s.id, o.id, at(o.payBy), p.id, at(p.at))
		b.check(PayOrTimeout, o.payment == p.id, "sale %s: order %s has payment %q, accepted was %s", s.id, o.id, o.payment, p.id)
	}
	want := 0
	if o.state == "paid" {
		want = 1
	}
	b.check(PayOrTimeout, o.note != "refunded" || o.refunded() && back > 0, "sale %s: the merchant refunded order %s, which is %s; %d payments of its price go back",
		s.id, o.id, o.state, back)
	b.check(PayOrTimeout, accepted == want, "sale %s: order %s is %s and has %d accepted payments", s.id, o.id, o.state, accepted)
	// Times are rounded down to milliseconds: an order may expire in the millisecond of its deadline.
	b.check(PayOrTimeout, o.state != "expired" || o.changed >= o.payBy, "sale %s: order %s has payment deadline %s, it expired at %s",
		s.id, o.id, at(o.payBy), at(o.changed))
}

// inspectMovements adds up the movements of a sale's units.
func (a *Auditor) inspectMovements(s *saleRow, l *ledgerRows) {
	b := a.records
	type moves struct{ sold, returned int64 }
	of := map[string]*moves{}
	var stock, free int64
	for _, m := range l.movements[s.id] {
		free += m.units
		o := of[m.reservation]
		if o == nil {
			o = &moves{}
			of[m.reservation] = o
		}
		switch m.kind {
		case "stock":
			stock += m.units
		case "sold":
			o.sold -= m.units
		case "returned":
			o.returned += m.units
			b.check(NoOversell, o.returned <= o.sold, "sale %s: more units of %s were returned than sold before", s.id, m.reservation)
		}
		if a.db.postgres {
			continue // it numbers rows when they are inserted, not when they are committed
		}
		b.check(NoOversell, free >= 0 && free <= stock, "sale %s: after movement %q of %s %d of %d units are free", s.id, m.kind, m.reservation, free, stock)
	}
	b.check(NoOversell, free == s.stock-s.sold, "sale %s: movements add up to %d, want %d − %d", s.id, free, s.stock, s.sold)
	for id := range of {
		if id != "" {
			_, known := l.byID[id]
			b.check(OneOrder, known, "sale %s: movements exist for %s, which is not an order", s.id, id)
		}
	}
	for _, o := range l.orders[s.id] {
		var n moves
		if m := of[o.id]; m != nil {
			n = *m
		}
		want := moves{}
		switch {
		case o.live():
			want = moves{sold: o.quantity}
		case o.isOrder():
			want = moves{sold: o.quantity, returned: o.quantity}
		}
		b.check(NoOversell, n == want, "sale %s: order %s is %s, %d units were sold and %d returned, want %d and %d",
			s.id, o.id, o.state, n.sold, n.returned, want.sold, want.returned)
	}
}
