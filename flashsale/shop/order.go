package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// settleWithin is how long a reservation may be neither with the Inventory nor in the Ledger
// before it is lost.
const settleWithin = 10 * time.Second

func (s *Shop) receipt(r sale.Reservation, of sale.Sale, state sale.OrderState) sale.Receipt {
	return sale.Receipt{Receipt: s.Keys.Receipt(r), Sale: of, State: state, At: r.At, PayBy: r.PayBy}
}

func (s *Shop) receiptOf(ctx context.Context, o sale.Order) sale.Receipt {
	of := sale.Sale{ID: o.Sale}
	of.Price = o.Price
	if p, err := s.saleOf(ctx, o.Sale); err == nil {
		of = p.sale
	}
	r := s.receipt(o.Reservation, of, o.State)
	r.Refunds, r.Contact = o.Refunds, o.Contact
	return r
}

// mine opens a receipt of the user's. Any other is not found.
func (s *Shop) mine(user, receipt string) (sale.Reservation, error) {
	r, err := s.Keys.OpenReceipt(receipt)
	if err != nil || r.User != user {
		return r, fmt.Errorf("shop: receipt: %w", sale.ErrNotFound)
	}
	return r, nil
}

// Order implements sale.BuyerService.
func (s *Shop) Order(ctx context.Context, user, receipt string) (sale.Receipt, error) {
	r, err := s.mine(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	o, err := s.order(ctx, r)
	if err != nil {
		return sale.Receipt{}, err
	}
	return s.receiptOf(ctx, o), nil
}

// find is the state of a reservation.
func (s *Shop) find(ctx context.Context, r sale.Reservation) (sale.OrderState, error) {
	o, err := s.order(ctx, r)
	return o.State, err
}

// order is what became of a genuine reservation. One that is with neither the Inventory nor the
// Ledger, and cannot be on its way between them, is noted as lost: then it never becomes
// an order.
func (s *Shop) order(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	o, err := s.inLedger(ctx, r)
	if err != nil || o.State != sale.Reserved {
		if err == nil {
			s.forget(r)
		}
		return o, err
	}
	lost, err := s.isLost(ctx, r)
	if err != nil || !lost {
		return o, err
	}
	// It may have become an order in the meantime.
	if o, err = s.inLedger(ctx, r); err != nil || o.State != sale.Reserved {
		return o, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	switch err := s.Ledger.MarkLost(ask, r, s.now()); {
	case errors.Is(err, sale.ErrConflict):
		return s.inLedger(ctx, r)
	case err != nil:
		return o, away("order", err)
	}
	s.tally.lost.Add(1)
	s.forget(r)
	if p, err := s.saleOf(ctx, r.Sale); err == nil {
		// If the Inventory holds it after all, its unit is free again.
		s.Inventory.Return(ask, r.Sale, p.sale.Epoch, r.User, r.ID)
	}
	o.State = sale.Lost
	return o, nil
}

func (s *Shop) forget(r sale.Reservation) {
	if l := s.live(r.Sale); l != nil {
		l.settled(r.ID)
	}
}

// inLedger is the order of a reservation, or one in state Reserved if there is none.
func (s *Shop) inLedger(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	o, err := s.Ledger.Order(ctx, r.ID)
	if errors.Is(err, sale.ErrNotFound) {
		return sale.Order{Reservation: r, State: sale.Reserved}, nil
	}
	if err != nil {
		return o, away("order", err)
	}
	return o, nil
}

// isLost reports whether a reservation that is no order is nowhere on its way to be one.
func (s *Shop) isLost(ctx context.Context, r sale.Reservation) (bool, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	row, err := s.Ledger.Sale(ctx, r.Sale)
	if err != nil {
		return false, away("order", err)
	}
	if row.State == sale.Paused && row.StateReason == sale.Recovering || r.Epoch > row.Epoch {
		return false, nil
	}
	at, err := s.Inventory.Status(ctx, r.Sale, row.Epoch, r.User)
	switch {
	case errors.Is(err, sale.ErrStale):
		// Of a sale that this shop has let go of, every stream is read to its end; of any
		// other it will be.
		return row.State == sale.Ended && s.live(r.Sale) == nil, nil
	case err != nil:
		return false, away("order", err)
	}
	for _, h := range at.Reserved {
		if h.ID == r.ID {
			return false, nil
		}
	}
	// The Inventory has a state of this epoch, so the streams before are read to their end.
	return r.Epoch < row.Epoch || s.now().Sub(r.At) > settleWithin, nil
}

// Orders implements sale.BuyerService.
func (s *Shop) Orders(ctx context.Context, user string) ([]sale.Receipt, error) {
	ask, cancel := s.within(ctx)
	defer cancel()
	orders, err := s.Ledger.Orders(ask, user)
	if err != nil {
		return nil, away("orders", err)
	}
	rs := make([]sale.Receipt, 0, len(orders))
	for _, o := range orders {
		rs = append(rs, s.receiptOf(ctx, o))
	}
	return rs, nil
}

// Cancel implements sale.BuyerService.
func (s *Shop) Cancel(ctx context.Context, user, receipt string) (sale.Receipt, error) {
	r, err := s.mine(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	o, err := s.Ledger.Cancel(ask, user, r.ID, s.now())
	if errors.Is(err, sale.ErrNotFound) {
		if o, err = s.order(ctx, r); err != nil {
			return sale.Receipt{}, err
		}
		return sale.Receipt{}, fmt.Errorf("shop: cancel: %w: it is %s, and no order to be cancelled yet or any more", sale.ErrConflict, o.State)
	}
	if err != nil {
		return sale.Receipt{}, away("cancel", err)
	}
	s.tally.cancelled.Add(1)
	// At once, if that is possible; the sweeper does it otherwise.
	if _, err := s.giveBackThese(ctx, []sale.Order{o}); err != nil {
		kick(s.returns)
	}
	return s.receiptOf(ctx, o), nil
}

// Pay implements sale.BuyerService. Money for a reservation that is not an order yet is
// ErrUnavailable: the provider says it again. For one that is no order ever it is a refund,
// noted in the audit log, once however often it is said.
func (s *Shop) Pay(ctx context.Context, receipt, payment string, amount int64) (sale.PayResult, error) {
	r, err := s.Keys.OpenReceipt(receipt)
	if err != nil {
		return sale.PayResult{}, fmt.Errorf("shop: receipt: %w", sale.ErrNotFound)
	}
	p := sale.Payment{ID: payment, Reservation: r.ID, Amount: amount}
	paid, err := s.pay(ctx, p)
	if errors.Is(err, sale.ErrNotFound) {
		o, failed := s.order(ctx, r)
		switch {
		case failed != nil:
			return sale.PayResult{}, failed
		case o.State == sale.Reserved:
			return sale.PayResult{}, fmt.Errorf("shop: pay: %w: the order is not written yet", sale.ErrUnavailable)
		}
		paid, err = s.pay(ctx, p) // the Ledger knows it by now
	}
	if err != nil {
		return sale.PayResult{}, away("pay", err)
	}
	if paid.SoldOut > 0 {
		s.soldOut(r.Sale, paid.SoldOut)
	}
	if paid.Repeated {
		return paid, nil
	}
	s.tally.paid(paid).Add(1)
	if state := paid.Order.State; state == sale.Lost || state == sale.Rejected {
		// No order tells of it to the merchant.
		what := fmt.Sprintf("refund due: payment %s of %d for reservation %s, which is %s", payment, amount, r.ID, state)
		ask, cancel := s.inHand(ctx)
		defer cancel()
		if err := s.Ledger.AppendAudit(ask, "payments", r.Sale, what, s.now()); err != nil {
			s.Log.Warn("refund not noted in the audit log", "sale", r.Sale, "refund", what, "error", err)
		}
	}
	return paid, nil
}

// soldOut tells all shops of the Inventory that every unit of a sale is paid. They would see it in
// the Ledger, but that may be slow, and who stands in line is to be told in time. What fails
// here the keeper does.
func (s *Shop) soldOut(id string, units int64) {
	l := s.live(id)
	if l == nil || l.snap.Load().counts.Paid >= units {
		return
	}
	l.setPaid(units)
	s.run(func(ctx context.Context) { // the payment does not wait for it
		ctx, cancel := s.within(ctx)
		defer cancel()
		if s.Inventory.SetPaid(ctx, id, l.snap.Load().sale.Epoch, units) != nil {
			kick(l.kept)
		}
	})
}

func (s *Shop) pay(ctx context.Context, p sale.Payment) (sale.PayResult, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.Ledger.Pay(ctx, p, s.now())
}
