package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

const (
	writeBatch    = 200
	writeWait     = 5 * time.Millisecond // for more entries of a batch
	loadedWait    = 6 * writeWait        // after a round of loadedSize entries that was not full
	loadedSize    = 4
	maxStreams    = 50   // that one round reads
	maxTogether   = 1000 // reservations of one transaction
	maxDeliveries = 5    // of an entry that the ledger does not accept
	repairEvery   = time.Second
)

// orderWriter creates orders in the ledger from the reservations in the inventory's streams.
type orderWriter struct {
	*env
	rate   *writeRate
	worker string // its name in the streams
}

// run writes one round after the other until ctx ends.
func (w *orderWriter) run(ctx context.Context) {
	for entries := 0; ; {
		sales := w.streams.take(ctx, maxStreams)
		if sales == nil {
			return
		}
		// More reservations come meanwhile, which then share the transaction.
		pause := writeWait
		if entries >= writeBatch {
			pause = 0 // they have come
		} else if entries >= loadedSize {
			pause = loadedWait
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		entries = w.round(ctx, sales)
	}
}

// round writes one batch of each of these sales. It lists a sale again whose stream may have more
// entries. After an error it does not: the inventorySync lists the sale while its stream is not
// empty. It returns how many entries it has read.
func (w *orderWriter) round(ctx context.Context, sales []*liveSale) (entries int) {
	batches := make([]batch, len(sales))
	var wg sync.WaitGroup
	read := func(b *batch) {
		p := b.sale.snapshot.Load()
		b.epoch = p.sale.Epoch
		if ctx.Err() == nil && !p.isRecovering() { // a recovery reads the stream itself
			b.err = b.read(ctx, 0)
		}
	}
	for i, l := range sales {
		batches[i] = batch{w: w, sale: l}
		if i > 0 {
			wg.Go(func() { read(&batches[i]) })
		}
	}
	read(&batches[0])
	wg.Wait()
	w.writeTogether(ctx, batches)
	for i := range batches {
		b := &batches[i]
		entries += len(b.valid) + len(b.done)
		finish := func() {
			if b.err == nil && len(b.valid)+len(b.done) > 0 {
				b.err = b.finish(ctx)
			}
			if errors.Is(b.err, sale.ErrStale) {
				signal(b.sale.syncNow)
			}
			w.streams.giveBack(b.sale, b.err == nil && b.full)
		}
		if i == len(batches)-1 {
			finish()
		} else {
			wg.Go(finish)
		}
	}
	wg.Wait()
	return entries
}

// writeTogether creates the orders of several sales in one transaction for each epoch, and so
// saves most of the cost of small batches. If the ledger does not accept all of them, it leaves
// them to finish.
func (w *orderWriter) writeTogether(ctx context.Context, batches []batch) {
	together := map[int64][]*batch{}
	for i := range batches {
		if b := &batches[i]; b.err == nil && len(b.valid) > 0 {
			together[b.epoch] = append(together[b.epoch], b)
		}
	}
	for epoch, bs := range together {
		var rs []sale.Reservation
		for _, b := range bs {
			rs = append(rs, reservations(b.valid)...)
		}
		if len(bs) < 2 || len(rs) > maxTogether {
			continue
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*w.timeout)
		results, err := w.ledger.CreateOrders(call, epoch, rs, w.now())
		cancel()
		if err != nil || len(results) != len(rs) {
			continue
		}
		for _, b := range bs {
			n := len(b.valid)
			b.valid = b.settle(ctx, b.valid, results[:n])
			results = results[n:]
		}
	}
}

// write reads one batch from the stream of an epoch, creates its orders and acknowledges it.
// While the ledger is unavailable it keeps the batch and tries again. It returns an error of
// the inventory or of ctx.
func (w *orderWriter) write(ctx context.Context, l *liveSale, epoch int64, wait time.Duration) error {
	b := batch{w: w, sale: l, epoch: epoch}
	if err := b.read(ctx, wait); err != nil || len(b.valid)+len(b.done) == 0 {
		return err
	}
	return b.finish(ctx)
}

// read reads the entries of a batch from the stream. It waits up to wait for the first.
func (b *batch) read(ctx context.Context, wait time.Duration) error {
	call, cancel := context.WithTimeout(ctx, b.w.timeout+wait)
	entries, err := b.w.inventory.Next(call, b.sale.id, b.epoch, b.w.worker, writeBatch, wait)
	cancel()
	if err != nil || len(entries) == 0 {
		return err
	}
	b.w.crash.At(crashpoint.WriterTook)
	b.began, b.full = time.Now(), len(entries) == writeBatch
	b.validate(ctx, entries)
	return nil
}

// finish creates the orders of a batch and acknowledges its entries.
func (b *batch) finish(ctx context.Context) error {
	if err := b.write(ctx); err != nil {
		return err
	}
	b.w.crash.At(crashpoint.WriterPlaced)
	if err := b.ack(ctx); err != nil {
		return err
	}
	b.w.crash.At(crashpoint.WriterDone)
	b.w.rate.measured(len(b.done), time.Since(b.began), b.full)
	return nil
}

func reservations(entries []sale.Entry) []sale.Reservation {
	rs := make([]sale.Reservation, len(entries))
	for i, e := range entries {
		rs[i] = e.Reservation
	}
	return rs
}

// batch holds the entries of one read.
type batch struct {
	w     *orderWriter
	sale  *liveSale
	epoch int64
	valid []sale.Entry // that have no outcome yet
	done  []string     // IDs of entries to acknowledge
	began time.Time
	full  bool  // it has writeBatch entries, so there may be more
	err   error // of reading or finishing it
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

// create creates orders. It tries again while the ledger is unavailable or fails, and while it
// has no unit for an entry. An error that it returns is about an entry, or that of ctx.
func (b *batch) create(ctx context.Context, entries []sale.Entry) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		rs := reservations(entries)
		// The timeout is long enough for a slow ledger to write a whole batch.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*b.w.timeout)
		results, err := b.w.ledger.CreateOrders(call, b.epoch, rs, b.w.now())
		cancel()
		switch {
		case err == nil && len(results) != len(rs):
			return fmt.Errorf("ledger returned %d results for %d reservations", len(results), len(rs))
		case err == nil:
			entries = b.settle(ctx, entries, results)
			if len(entries) == 0 {
				return nil
			}
			switch row := b.repair(ctx); {
			case row.Epoch > b.epoch:
				continue // the entries are fenced now
			case row.State == sale.Ended:
				b.lose(ctx, entries)
				return nil
			}
		case errors.Is(err, sale.ErrInvalid) || errors.Is(err, sale.ErrNotFound):
			return err
		default:
			b.w.stats.ledgerErrors.Add(1)
			b.w.rate.failed()
			b.w.log.Warn("cannot write orders, will retry", "sale", b.sale.id, "entries", len(rs), "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// settle applies the ledger's results. It returns the unit of an entry that never becomes an
// order, and the entries for which no unit is left.
func (b *batch) settle(ctx context.Context, entries []sale.Entry, results []sale.OrderResult) (without []sale.Entry) {
	settled := make([]string, 0, len(entries))
	for i, r := range results {
		e := entries[i]
		if r.New {
			b.w.stats.created(r.State).Add(1)
		}
		switch r.State {
		case sale.Reserved:
			if !r.Fenced {
				without = append(without, e)
			} else if b.keepFenced(ctx, e.Reservation) {
				b.done = append(b.done, e.ID)
			}
			continue
		case sale.Rejected, sale.Lost:
			if !b.returnUnit(ctx, e.Reservation) {
				continue // delivered again; its unit is returned then
			}
		}
		settled = append(settled, e.Reservation.ID)
		b.done = append(b.done, e.ID)
	}
	b.sale.settle(settled...)
	return without
}

// keepFenced keeps a fenced reservation, so that inventorySync transfers it to the present
// epoch when the inventory is open. If the process ends before, the buyer's next request for
// the order does so. keepFenced reports whether the entry needs no other delivery.
func (b *batch) keepFenced(ctx context.Context, r sale.Reservation) bool {
	if b.sale.acknowledge(r, b.w.clock()) {
		signal(b.sale.syncNow)
		return true
	}
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	return b.w.ledger.MarkLost(ctx, r, b.w.now()) == nil
}

// repair begins a recovery because the ledger has no unit for an entry: the inventory had more
// units. It closes the inventory, which refuses everything from then on, and takes the next
// epoch. It returns the row of the sale, which is zero if the ledger is unavailable, or if
// this process has repaired the sale a moment ago.
func (b *batch) repair(ctx context.Context) sale.Sale {
	b.w.log.Warn("inventory had more units than the ledger, rebuilding it", "sale", b.sale.id, "epoch", b.epoch)
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	if err := b.w.inventory.Close(ctx, b.sale.id, b.epoch); err != nil {
		b.w.log.Warn("cannot close inventory, will retry", "sale", b.sale.id, "error", err)
	}
	now := b.w.clock()
	if age := now.Sub(time.UnixMilli(b.sale.repairedAt.Load())); age >= 0 && age < repairEvery {
		return sale.Sale{}
	}
	b.sale.repairedAt.Store(now.UnixMilli())
	row, _, err := b.w.nextEpoch(ctx, b.sale.id, b.epoch)
	if err != nil {
		b.w.log.Warn("cannot begin recovery, will retry", "sale", b.sale.id, "error", err)
		return sale.Sale{}
	}
	b.sale.setSale(row)
	signal(b.sale.syncNow)
	return row
}

// lose marks the reservations of a sale that has ended as lost. If that fails, they are
// delivered again.
func (b *batch) lose(ctx context.Context, entries []sale.Entry) {
	for _, e := range entries {
		call, cancel := b.w.callToEnd(ctx)
		err := b.w.ledger.MarkLost(call, e.Reservation, b.w.now())
		cancel()
		if err == nil {
			b.w.stats.lost.Add(1)
		}
		if err == nil && b.returnUnit(ctx, e.Reservation) || errors.Is(err, sale.ErrConflict) {
			b.sale.settle(e.Reservation.ID)
			b.done = append(b.done, e.ID)
		}
	}
}

// returnUnit returns a unit to the inventory. It reports whether that needs no retry: an
// inventory that is closed gets the unit when it is rebuilt.
func (b *batch) returnUnit(ctx context.Context, r sale.Reservation) bool {
	ctx, cancel := b.w.callToEnd(ctx)
	defer cancel()
	_, err := b.w.inventory.Return(ctx, r.Sale, b.epoch, r.User, r.ID, false)
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
