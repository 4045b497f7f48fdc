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
	writeBatch    = 200
	readWait      = 20 * time.Millisecond
	maxDeliveries = 5 // of an entry that the ledger does not accept
)

// orderWriter creates orders in the ledger from the reservations in the inventory's streams.
type orderWriter struct {
	*env
	catalog *catalog
	rate    *writeRate
	worker  string // its name in the streams
	workers int    // order writers of this process
}

// run writes one batch after the other until ctx ends.
func (w *orderWriter) run(ctx context.Context) {
	idle := time.NewTicker(readWait)
	defer idle.Stop()
	for ctx.Err() == nil {
		sales := w.readable()
		wait := readWait
		if len(sales) > 1 {
			wait = max(time.Millisecond, readWait/time.Duration(len(sales)))
		}
		read := false
		for _, l := range sales {
			if ctx.Err() != nil {
				return
			}
			read = w.writeLive(ctx, l, wait) || read
		}
		if !read {
			select {
			case <-ctx.Done():
			case <-idle.C:
			}
		}
	}
}

// readable returns the sales whose streams may have entries.
func (w *orderWriter) readable() []*liveSale {
	var ls []*liveSale
	now := w.clock()
	for _, l := range w.catalog.live() {
		p := l.snapshot.Load()
		if p.counted && p.counts.Backlog == 0 && p.now(now).Before(p.sale.StartsAt) || l.drainedEpoch.Load() == p.sale.Epoch {
			continue
		}
		if p.isRecovering() {
			continue // the recovery reads its stream
		}
		ls = append(ls, l)
	}
	return ls
}

// writeLive writes one batch of a live sale. It reports whether it could read the stream.
func (w *orderWriter) writeLive(ctx context.Context, l *liveSale, wait time.Duration) bool {
	l.writers.Add(1)
	defer l.writers.Add(-1)
	if l.recovering.Load() > 0 {
		return false
	}
	p := l.snapshot.Load()
	err := w.write(ctx, l, p.sale.Epoch, wait)
	if errors.Is(err, sale.ErrStale) {
		if p.sale.State == sale.Ended {
			l.drainedEpoch.Store(p.sale.Epoch)
		}
		return false
	}
	return err == nil
}

// write reads one batch from the stream of an epoch, creates its orders and acknowledges it.
// While the ledger is unavailable it keeps the batch and tries again. It returns an error of
// the inventory or of ctx.
func (w *orderWriter) write(ctx context.Context, l *liveSale, epoch int64, wait time.Duration) error {
	call, cancel := context.WithTimeout(ctx, w.timeout+wait)
	entries, err := w.inventory.Next(call, l.id, epoch, w.worker, writeBatch, wait)
	cancel()
	if err != nil || len(entries) == 0 {
		return err
	}
	w.crash.At(crashpoint.WriterTook)
	began := time.Now()
	b := batch{w: w, sale: l, epoch: epoch}
	b.validate(ctx, entries)
	if err := b.write(ctx); err != nil {
		return err
	}
	w.crash.At(crashpoint.WriterPlaced)
	if err := b.ack(ctx); err != nil {
		return err
	}
	w.crash.At(crashpoint.WriterDone)
	w.rate.measured(len(b.done), time.Since(began), len(entries) == writeBatch, w.workers)
	return nil
}

// batch holds the entries of one read.
type batch struct {
	w     *orderWriter
	sale  *liveSale
	epoch int64
	valid []sale.Entry
	done  []string // IDs of entries to acknowledge
}

// validate moves entries that cannot be orders to the dead letters, and keeps the others.
func (b *batch) validate(ctx context.Context, entries []sale.Entry) {
	for _, e := range entries {
		reason := e.Corrupt
		if r := e.Reservation; reason == "" && (r.Sale != b.sale.id || r.Epoch > b.epoch || !sale.IsID(r.ID)) {
			reason = fmt.Sprintf("reservation %q of sale %q at epoch %d in the stream of %q at epoch %d", r.ID, r.Sale, r.Epoch, b.sale.id, b.epoch)
		}
		if reason == "" {
			b.valid = append(b.valid, e)
		} else {
			b.deadLetter(ctx, e, reason)
		}
	}
}

// deadLetter stores an entry that cannot become an order. If that fails, the entry stays in
// the stream.
func (b *batch) deadLetter(ctx context.Context, e sale.Entry, reason string) {
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	if err := b.w.ledger.AddDeadLetter(ctx, b.sale.id, b.epoch, e, reason, b.w.now()); err != nil {
		b.w.log.Warn("cannot store dead letter, will retry", "sale", b.sale.id, "entry", e.ID, "error", err)
		return
	}
	b.w.stats.deadLetters.Add(1)
	b.w.log.Warn("entry moved to dead letters", "sale", b.sale.id, "entry", e.ID, "reason", reason)
	b.done = append(b.done, e.ID)
}

// write creates orders for the valid entries: all together or, if the ledger does not accept
// one of them, one by one.
func (b *batch) write(ctx context.Context) error {
	if len(b.valid) == 0 {
		return nil
	}
	if err := b.create(ctx, b.valid); err == nil || ctx.Err() != nil {
		return err
	}
	for i, e := range b.valid {
		err := b.create(ctx, b.valid[i:i+1])
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil && e.Deliveries >= maxDeliveries:
			b.giveUp(ctx, e, err)
		case err != nil:
			b.w.log.Warn("order not created, will retry", "sale", b.sale.id, "entry", e.ID, "error", err)
		}
	}
	return nil
}

// create creates orders. It tries again while the ledger is unavailable or fails; an error that
// it returns is about an entry, or that of ctx.
func (b *batch) create(ctx context.Context, entries []sale.Entry) error {
	rs := make([]sale.Reservation, len(entries))
	for i, e := range entries {
		rs[i] = e.Reservation
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The timeout is long enough for a slow ledger to write a whole batch.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*b.w.timeout)
		results, err := b.w.ledger.CreateOrders(call, rs, b.w.now())
		cancel()
		switch {
		case err == nil && len(results) != len(rs):
			return fmt.Errorf("ledger returned %d results for %d reservations", len(results), len(rs))
		case err == nil:
			b.settle(ctx, entries, results)
			return nil
		case errors.Is(err, sale.ErrInvalid) || errors.Is(err, sale.ErrNotFound):
			return err
		}
		b.w.stats.ledgerErrors.Add(1)
		b.w.rate.failed()
		b.w.log.Warn("cannot write orders, will retry", "sale", b.sale.id, "entries", len(rs), "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// settle applies the ledger's results. It returns the unit of an entry that is not an order.
func (b *batch) settle(ctx context.Context, entries []sale.Entry, results []sale.OrderResult) {
	settled := make([]string, 0, len(entries))
	for i, r := range results {
		e := entries[i]
		if r.New {
			b.w.stats.created(r.State).Add(1)
		}
		if r.State == sale.Rejected || r.State == sale.Lost {
			if !b.returnUnit(ctx, e.Reservation) {
				continue // delivered again; its unit is returned then
			}
		}
		settled = append(settled, e.Reservation.ID)
		b.done = append(b.done, e.ID)
	}
	b.sale.settle(settled...)
}

// returnUnit returns a unit to the inventory. It reports whether that needs no retry: an
// inventory that is closed gets the unit when it is rebuilt.
func (b *batch) returnUnit(ctx context.Context, r sale.Reservation) bool {
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	_, err := b.w.inventory.Return(ctx, r.Sale, b.epoch, r.User, r.ID)
	if err == nil {
		signal(b.sale.admitNow)
	}
	return err == nil || errors.Is(err, sale.ErrStale)
}

// giveUp handles an entry that the ledger has not accepted in maxDeliveries: it marks the
// reservation as lost, returns its unit and stores a dead letter.
func (b *batch) giveUp(ctx context.Context, e sale.Entry, cause error) {
	call, cancel := b.w.callToEnd(ctx)
	err := b.w.ledger.MarkLost(call, e.Reservation, b.w.now())
	cancel()
	if errors.Is(err, sale.ErrConflict) {
		b.done = append(b.done, e.ID) // it is an order
		return
	}
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		return // the next delivery tries again
	}
	if b.returnUnit(ctx, e.Reservation) {
		b.deadLetter(ctx, e, fmt.Sprintf("after %d deliveries: %v", e.Deliveries, cause))
	}
}

// ack removes the settled entries from the stream.
func (b *batch) ack(ctx context.Context) error {
	if len(b.done) == 0 {
		return nil
	}
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	return b.w.inventory.Ack(ctx, b.sale.id, b.epoch, b.done...)
}
