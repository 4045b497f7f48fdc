package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

const (
	clerkBatch = 200
	clerkWait  = 20 * time.Millisecond
	maxFails   = 5 // deliveries of an entry that fails for its own sake
)

// clerk writes what was reserved into the Ledger, one batch after the other.
func (s *Shop) clerk(ctx context.Context, i int) {
	worker := fmt.Sprintf("%s-%d", s.Worker, i+1)
	rest := time.NewTicker(clerkWait)
	defer rest.Stop()
	for ctx.Err() == nil {
		busy := s.toClear()
		wait := clerkWait
		if len(busy) > 1 {
			wait = max(time.Millisecond, clerkWait/time.Duration(len(busy)))
		}
		asked := false
		for _, l := range busy {
			if ctx.Err() != nil {
				return
			}
			asked = s.clerkAt(ctx, l, worker, wait) || asked
		}
		if !asked {
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
		}
	}
}

// toClear is the sales whose streams may hold something.
func (s *Shop) toClear() []*live {
	var ls []*live
	clock := s.Clock()
	for _, l := range *s.open.Load() {
		p := l.snap.Load()
		if p.have && p.counts.Backlog == 0 && p.now(clock).Before(p.sale.StartsAt) || l.drained.Load() == p.sale.Epoch {
			continue
		}
		if p.sale.State == sale.Paused && p.sale.StateReason == sale.Recovering {
			continue // the warden reads it
		}
		ls = append(ls, l)
	}
	return ls
}

// clerkAt clears one batch of a sale's stream. It reports whether the Inventory was asked with
// success.
func (s *Shop) clerkAt(ctx context.Context, l *live, worker string, wait time.Duration) bool {
	l.busy.Add(1)
	defer l.busy.Add(-1)
	if l.barred.Load() > 0 {
		return false
	}
	p := l.snap.Load()
	err := s.clear(ctx, l, p.sale.Epoch, worker, wait)
	if errors.Is(err, sale.ErrStale) {
		if p.sale.State == sale.Ended {
			l.drained.Store(p.sale.Epoch)
		}
		return false
	}
	return err == nil
}

// clear takes a batch out of the stream of an epoch and makes it orders. While the Ledger is
// away it waits, with the batch in hand. Its error is of the Inventory, or that of ctx.
func (s *Shop) clear(ctx context.Context, l *live, epoch int64, worker string, wait time.Duration) error {
	asked, cancel := context.WithTimeout(ctx, s.Deadline+wait)
	entries, err := s.Inventory.Next(asked, l.id, epoch, worker, clerkBatch, wait)
	cancel()
	if err != nil || len(entries) == 0 {
		return err
	}
	s.Crash.At(crashpoint.WriterTook)
	began := time.Now()
	b := batch{s: s, l: l, epoch: epoch}
	b.sort(ctx, entries)
	if err := b.place(ctx); err != nil {
		return err
	}
	s.Crash.At(crashpoint.WriterPlaced)
	if err := b.done(ctx); err != nil {
		return err
	}
	s.Crash.At(crashpoint.WriterDone)
	s.drain.showed(len(b.ids), time.Since(began), len(entries) == clerkBatch, s.Workers)
	return nil
}

// A batch is entries in hand.
type batch struct {
	s     *Shop
	l     *live
	epoch int64
	good  []sale.Entry
	ids   []string // entries that are to be taken out of the stream
}

// sort buries what cannot be read, and keeps the rest.
func (b *batch) sort(ctx context.Context, entries []sale.Entry) {
	for _, e := range entries {
		why := e.Corrupt
		if r := e.Reservation; why == "" && (r.Sale != b.l.id || r.Epoch > b.epoch || !sale.IsID(r.ID)) {
			why = fmt.Sprintf("reservation %q of sale %q at epoch %d in the stream of %q at epoch %d", r.ID, r.Sale, r.Epoch, b.l.id, b.epoch)
		}
		if why == "" {
			b.good = append(b.good, e)
		} else {
			b.bury(ctx, e, why)
		}
	}
}

// bury keeps an entry that cannot become an order; if that fails it stays in the stream.
func (b *batch) bury(ctx context.Context, e sale.Entry, why string) {
	ctx, cancel := b.s.inHand(ctx)
	defer cancel()
	if err := b.s.Ledger.AddDeadLetter(ctx, b.l.id, b.epoch, e, why, b.s.now()); err != nil {
		b.s.Log.Warn("entry not buried", "sale", b.l.id, "entry", e.ID, "error", err)
		return
	}
	b.s.tally.buried.Add(1)
	b.s.Log.Warn("entry buried", "sale", b.l.id, "entry", e.ID, "reason", why)
	b.ids = append(b.ids, e.ID)
}

// place makes the good entries orders, together or, if one of them is at fault, one by one.
func (b *batch) place(ctx context.Context) error {
	if len(b.good) == 0 {
		return nil
	}
	left, err := b.placeSome(ctx, b.good)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for i, e := range left {
		_, err := b.placeSome(ctx, left[i:i+1])
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil && e.Deliveries >= maxFails:
			b.giveUp(ctx, e, err)
		case err != nil:
			b.s.Log.Warn("entry is no order; it is delivered again", "sale", b.l.id, "entry", e.ID, "error", err)
		}
	}
	return nil
}

// placeSome makes entries orders, and returns those that are none. While the Ledger is away
// or at fault it tries again; an error that it returns is for the sake of an entry, or that
// of ctx.
func (b *batch) placeSome(ctx context.Context, entries []sale.Entry) ([]sale.Entry, error) {
	rs := make([]sale.Reservation, len(entries))
	for i, e := range entries {
		rs[i] = e.Reservation
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		placed, err := b.ask(ctx, rs)
		if err == nil || errors.Is(err, sale.ErrInvalid) || errors.Is(err, sale.ErrNotFound) {
			if len(placed) == len(rs) {
				entries = b.placed(ctx, entries, placed)
			}
			if err == nil && len(entries) > 0 && len(placed) != len(rs) {
				err = fmt.Errorf("ledger tells of %d of %d reservations", len(placed), len(rs))
			}
			return entries, err
		}
		b.s.tally.ledgerAway.Add(1)
		b.s.drain.stalled()
		b.s.Log.Warn("orders not written; it is tried again", "sale", b.l.id, "entries", len(rs), "error", err)
		select {
		case <-ctx.Done():
			return entries, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// ask asks the Ledger once, with a deadline that leaves a slow one time for a whole batch.
func (b *batch) ask(ctx context.Context, rs []sale.Reservation) ([]sale.OrderResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*b.s.Deadline)
	defer cancel()
	return b.s.Ledger.CreateOrders(ctx, rs, b.s.now())
}

// placed notes what became of entries, and returns those of which the Ledger says nothing.
// The unit of one that is no order goes back.
func (b *batch) placed(ctx context.Context, entries []sale.Entry, placed []sale.OrderResult) (left []sale.Entry) {
	settled := make([]string, 0, len(entries))
	for i, p := range placed {
		e := entries[i]
		if p.State == "" {
			left = append(left, e)
			continue
		}
		if p.New {
			b.s.tally.placed(p.State).Add(1)
		}
		if p.State == sale.Rejected || p.State == sale.Lost {
			if !b.giveBack(ctx, e.Reservation) {
				continue // delivered again, and given back then
			}
		}
		settled = append(settled, e.Reservation.ID)
		b.ids = append(b.ids, e.ID)
	}
	b.l.settled(settled...)
	return left
}

// giveBack gives a unit back to the Inventory. It reports whether that is so now; an Inventory that is
// closed gets it when it is built again.
func (b *batch) giveBack(ctx context.Context, r sale.Reservation) bool {
	ctx, cancel := b.s.inHand(ctx)
	defer cancel()
	_, err := b.s.Inventory.Return(ctx, r.Sale, b.epoch, r.User, r.ID)
	if err == nil {
		kick(b.l.wake)
	}
	return err == nil || errors.Is(err, sale.ErrStale)
}

// giveUp ends an entry that was delivered often and fails for its own sake: it becomes no
// order ever, its unit goes back, its buyer is told.
func (b *batch) giveUp(ctx context.Context, e sale.Entry, cause error) {
	lose, cancel := b.s.inHand(ctx)
	err := b.s.Ledger.MarkLost(lose, e.Reservation, b.s.now())
	cancel()
	if errors.Is(err, sale.ErrConflict) {
		b.ids = append(b.ids, e.ID) // it is an order
		return
	}
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		return // tried again when it is delivered again
	}
	if b.giveBack(ctx, e.Reservation) {
		b.bury(ctx, e, fmt.Sprintf("after %d deliveries: %v", e.Deliveries, cause))
	}
}

// done takes out of the stream what was seen to.
func (b *batch) done(ctx context.Context) error {
	if len(b.ids) == 0 {
		return nil
	}
	ctx, cancel := b.s.inHand(ctx)
	defer cancel()
	return b.s.Inventory.Ack(ctx, b.l.id, b.epoch, b.ids...)
}
