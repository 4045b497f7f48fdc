package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// drainEpochs bounds how many earlier epochs a recovery drains. More than one can have entries,
// because recoveries may have been interrupted.
const drainEpochs = 8

// recovery rebuilds the inventory's state of one sale from the ledger, at the next epoch.
// Several processes may recover a sale at once: every step is idempotent, and the ledger
// assigns each epoch once.
//
// A recovery closes the state and turns its stream into orders, then takes the next epoch, and
// opens the inventory with the orders that the ledger has. An entry that a process keeps for
// longer is fenced: the ledger creates no order for it. It is then acknowledged as the others
// of that process, and orderFinder transfers it to the new state or marks it as lost.
type recovery struct {
	*env
	writer *orderWriter
	finder *orderFinder
	sale   *liveSale
}

// run recovers a sale whose inventory has lost its state, or continues a recovery that has
// begun. It reports whether the inventory has a state now.
func (r *recovery) run(ctx context.Context) bool {
	row, err := r.row(ctx)
	if err == nil && row.StateReason != sale.Recovering {
		if row.State == sale.Ended || row.Epoch > r.sale.snapshot.Load().sale.Epoch {
			r.sale.setSale(row) // another process has recovered it
			return false
		}
		// Another process may have completed it since the counts were read.
		if _, err := r.count(ctx, r.sale.id, row.Epoch); !errors.Is(err, sale.ErrStale) {
			r.sale.setSale(row)
			return false
		}
		var took bool
		row, took, err = r.advance(ctx, row)
		if err == nil && !took && row.StateReason != sale.Recovering {
			r.sale.setSale(row) // another process has completed it, or the sale has ended
			return false
		}
	}
	if err != nil {
		r.warn(ctx, err)
		return false
	}
	return r.recoverAt(ctx, row)
}

func (r *recovery) warn(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.log.Warn("cannot recover sale, will retry", "sale", r.sale.id, "error", err)
	}
}

// rebuild rebuilds the state at the epoch after that of row, although the inventory has one.
// If another process has taken that epoch, that process does so. rebuild reports whether this
// one did.
func (r *recovery) rebuild(ctx context.Context, row sale.Sale) (bool, error) {
	next, took, err := r.advance(ctx, row)
	if !took {
		return false, err
	}
	return r.recoverAt(ctx, next), nil
}

// advance closes the state at the epoch of row, drains its stream and takes the next epoch.
func (r *recovery) advance(ctx context.Context, row sale.Sale) (next sale.Sale, took bool, err error) {
	if err := r.drain(ctx, row.Epoch); err != nil {
		return row, false, err
	}
	r.crash.At(crashpoint.RecoverDrained)
	return r.nextEpoch(ctx, row.ID, row.Epoch)
}

// recoverAt rebuilds the state at the epoch of row and reports whether that succeeded.
func (r *recovery) recoverAt(ctx context.Context, row sale.Sale) bool {
	began, epoch := time.Now(), row.Epoch
	row, err := r.rebuildAt(ctx, row)
	if err != nil {
		r.warn(ctx, err)
		return false
	}
	r.sale.setSale(row)
	signal(r.sale.syncNow)
	if row.Epoch == epoch {
		r.stats.recoveries.Add(1)
		r.log.Info("sale recovered", "sale", r.sale.id, "epoch", row.Epoch, "took", time.Since(began))
	}
	return true
}

func (r *recovery) rebuildAt(ctx context.Context, row sale.Sale) (sale.Sale, error) {
	r.crash.At(crashpoint.RecoverEpoch)
	r.sale.setSale(row)
	// Entries can be left: another process may have taken the epoch without draining.
	if err := r.drain(ctx, row.Epoch-1); err != nil {
		return row, err
	}
	return r.open(ctx, row)
}

// row reads the sale from the ledger.
func (r *recovery) row(ctx context.Context) (sale.Sale, error) {
	ctx, cancel := r.call(ctx)
	defer cancel()
	return r.ledger.Sale(ctx, r.sale.id)
}

// drain closes the inventory's states up to an epoch and writes the entries that are left in
// their streams.
func (r *recovery) drain(ctx context.Context, last int64) error {
	for epoch := max(1, last-drainEpochs+1); epoch <= last; epoch++ {
		call, cancel := r.call(ctx)
		err := r.inventory.Close(call, r.sale.id, epoch)
		cancel()
		if err != nil {
			return err
		}
	}
	r.crash.At(crashpoint.RecoverClosed)
	for epoch := max(1, last-drainEpochs+1); epoch <= last; epoch++ {
		if err := r.drainEpoch(ctx, epoch); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) drainEpoch(ctx context.Context, epoch int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := r.writer.write(ctx, r.sale, epoch, 50*time.Millisecond)
		if errors.Is(err, sale.ErrStale) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// open opens the inventory at the epoch of row with the state that the ledger has.
func (r *recovery) open(ctx context.Context, row sale.Sale) (sale.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*r.timeout) // reads all orders of the sale
	defer cancel()
	state, err := r.ledger.InitialState(ctx, r.sale.id)
	if err != nil {
		return row, err
	}
	if state.Sale.Epoch != row.Epoch {
		return state.Sale, nil // there is a later one
	}
	if state.Sale.StateReason == sale.Recovering {
		state.Sale.State = sale.Exposed // the pause of a recovery is in the ledger alone
	}
	if err := r.inventory.Open(ctx, state); errors.Is(err, sale.ErrStale) {
		// It was open at this epoch and was lost again before the ledger recorded it.
		next, _, err := r.advance(ctx, row)
		return next, err
	} else if err != nil {
		return row, err
	}
	r.crash.At(crashpoint.RecoverOpened)
	// Reservations that this process acknowledged come before new ones.
	r.finder.settleEarlier(ctx, r.sale, row.Epoch, time.Second)
	done, err := r.ledger.MarkRecovered(ctx, r.sale.id, row.Epoch, r.clock())
	if errors.Is(err, sale.ErrConflict) {
		return r.ledger.Sale(ctx, r.sale.id) // another process was faster
	}
	return done, err
}
