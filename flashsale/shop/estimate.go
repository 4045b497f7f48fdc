package shop

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/estimate"
	"github.com/floodweir/weir/flashsale/sale"
)

// pendingPayments holds what the ledger has about the payments of a sale.
type pendingPayments struct {
	sale.Payments
	within time.Duration // the time to pay
}

const (
	paymentsEvery = 2 * time.Second
	maxPayBy      = 2000
)

// observe adds the counts of a snapshot to the estimator. It requires mu.
func (l *liveSale) observe(p *snapshot) {
	c := &p.counts
	l.estimator.Observe(estimate.Sample{
		At: c.Now, Free: c.Free, Turns: int64(p.sale.Headroom) * c.Free, Length: p.sale.TokenFor,
		Waiting: c.Waiting, Taking: c.Outstanding, Begun: c.Turns, Left: c.Left,
		PayBy: l.payments.PayBy, PayWithin: l.payments.within, Paid: l.payments.After[:], Unpaid: l.payments.Unpaid, PerOrder: l.payments.PerOrder,
	})
}

// wait estimates the wait of a user with this many present users ahead, who wants some units.
func (l *liveSale) wait(ahead int64, units int, buys bool) estimate.Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.estimator.Wait(ahead, units, buys)
}

// readPayments reads the pending payments of a sale without free units, if users wait for it.
// While units are free, only the size of orders is needed, if that can differ.
func (s *inventorySync) readPayments(ctx context.Context, p *snapshot) {
	now := s.clock()
	if age := now.Sub(s.paymentsAt); p.counts.Free > 0 && p.sale.MaxQuantity <= 1 || p.counts.Waiting == 0 || age >= 0 && age < paymentsEvery {
		return
	}
	s.paymentsAt = now
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.ledger.Payments(ctx, s.sale.id, maxPayBy)
	if err != nil {
		s.stats.ledgerErrors.Add(1)
		return
	}
	s.sale.mu.Lock()
	defer s.sale.mu.Unlock()
	s.sale.payments = pendingPayments{got, p.sale.PayWithin}
}

// maxBacklog returns how many entries the stream may have while users are admitted: what the
// order writers write in two seconds.
func (v *visit) maxBacklog() int64 { return int64(2 * v.admission.rate.perSecond()) }

// poll asks the inventory about the user's ticket, as sale.Inventory.Poll.
func (v *visit) poll(ctx context.Context, reservation string) (sale.TicketStatus, error) {
	ctx, cancel := v.call(ctx)
	defer cancel()
	return v.inventory.Poll(ctx, sale.PollRequest{Sale: v.sale().ID, Epoch: v.sale().Epoch, User: v.user,
		Reservation: reservation, MaxBacklog: v.maxBacklog(), MaxUnits: v.maxUnits, Quantity: v.quantity})
}
