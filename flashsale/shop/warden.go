package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// oldEpochs is how many earlier epochs are looked at for what is left in their streams: a
// recovery may itself have been cut off.
const oldEpochs = 8

// recover builds the Inventory's state of the sale again, at the next epoch; or goes on with a
// recovery that somebody has begun. Several shops may do so at once: what each does is
// idempotent, and the epoch is handed out once.
func (k *keeper) recover(ctx context.Context) {
	row, err := k.fresh(ctx)
	if err == nil && row.StateReason != sale.Recovering {
		if row.State == sale.Ended || row.Epoch > k.snap.Load().sale.Epoch {
			k.setSale(row) // done by another
			return
		}
		// Another may have come to the end of it since the Inventory was looked at.
		if _, err := k.count(ctx, row.Epoch); !errors.Is(err, sale.ErrStale) {
			k.setSale(row)
			return
		}
		row, err = k.nextEpoch(ctx, row)
	}
	if err != nil {
		k.Log.Warn("sale not recovered; it is tried again", "sale", k.id, "error", err)
		return
	}
	k.recoverAt(ctx, row)
}

// buildAgain builds the Inventory's state at the epoch after that of row, though it has one. If
// another has taken that epoch, it does so.
func (k *keeper) buildAgain(ctx context.Context, row sale.Sale) error {
	ask, cancel := k.inHand(ctx)
	defer cancel()
	next, err := k.Ledger.NextEpoch(ask, k.id, row.Epoch, k.Clock())
	if errors.Is(err, sale.ErrConflict) {
		return nil
	}
	if err == nil {
		k.recoverAt(ctx, next)
	}
	return err
}

// recoverAt builds the Inventory's state at the epoch of row.
func (k *keeper) recoverAt(ctx context.Context, row sale.Sale) {
	k.barred.Add(1)
	defer k.barred.Add(-1)
	began, epoch := time.Now(), row.Epoch
	row, err := k.rebuildAt(ctx, row)
	if err != nil {
		if ctx.Err() == nil {
			k.Log.Warn("sale not recovered; it is tried again", "sale", k.id, "error", err)
		}
		return
	}
	k.stale, k.drift = 0, drift{}
	k.setSale(row)
	kick(k.kept)
	if row.Epoch != epoch {
		return // it goes on at a later one
	}
	k.tally.recoveries.Add(1)
	k.Log.Info("sale recovered", "sale", k.id, "epoch", row.Epoch, "took", time.Since(began))
}

func (k *keeper) rebuildAt(ctx context.Context, row sale.Sale) (sale.Sale, error) {
	k.Crash.At(crashpoint.RecoverEpoch)
	k.setSale(row)
	if err := k.leave(ctx); err != nil {
		return row, err
	}
	if err := k.readOut(ctx, row.Epoch-1); err != nil {
		return row, err
	}
	k.Crash.At(crashpoint.RecoverDrained)
	return k.reopen(ctx, row)
}

func (k *keeper) fresh(ctx context.Context) (sale.Sale, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	return k.Ledger.Sale(ctx, k.id)
}

// nextEpoch takes the next epoch; another may have been faster, and then it is that one's.
func (k *keeper) nextEpoch(ctx context.Context, row sale.Sale) (sale.Sale, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	next, err := k.Ledger.NextEpoch(ctx, k.id, row.Epoch, k.Clock())
	if errors.Is(err, sale.ErrConflict) {
		next, err = k.Ledger.Sale(ctx, k.id)
	}
	return next, err
}

// leave waits until no clerk of this shop has entries of the sale in hand.
func (k *keeper) leave(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, 2*k.Deadline)
	defer cancel()
	for k.busy.Load() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("shop: clerks have entries in hand: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// readOut closes the Inventory's states up to an epoch, and writes what is left in their streams
// into the Ledger.
func (k *keeper) readOut(ctx context.Context, last int64) error {
	for epoch := max(1, last-oldEpochs+1); epoch <= last; epoch++ {
		if err := k.close(ctx, epoch); err != nil {
			return err
		}
	}
	k.Crash.At(crashpoint.RecoverClosed)
	for epoch := max(1, last-oldEpochs+1); epoch <= last; epoch++ {
		if err := k.readEpoch(ctx, epoch); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) close(ctx context.Context, epoch int64) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	return k.Inventory.Close(ctx, k.id, epoch)
}

func (k *keeper) readEpoch(ctx context.Context, epoch int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := k.clear(ctx, k.live, epoch, k.Worker+"-warden", 50*time.Millisecond)
		if errors.Is(err, sale.ErrStale) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reopen opens the Inventory at the epoch of row from what the Ledger has.
func (k *keeper) reopen(ctx context.Context, row sale.Sale) (sale.Sale, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*k.Deadline) // all orders of the sale are read
	defer cancel()
	o, err := k.Ledger.InitialState(ctx, k.id)
	if err != nil {
		return row, err
	}
	if o.Sale.Epoch != row.Epoch {
		return o.Sale, nil // there is a later one
	}
	if o.Sale.StateReason == sale.Recovering {
		o.Sale.State = sale.Exposed // the Inventory is not paused; the sale is, until it is recovered
	}
	if err := k.Inventory.Open(ctx, o); errors.Is(err, sale.ErrStale) {
		// It was open at this epoch, and is lost again, before the Ledger knew of it.
		return k.nextEpoch(ctx, row)
	} else if err != nil {
		return row, err
	}
	k.Crash.At(crashpoint.RecoverOpened)
	done, err := k.Ledger.MarkRecovered(ctx, k.id, row.Epoch, k.Clock())
	if errors.Is(err, sale.ErrConflict) {
		return k.Ledger.Sale(ctx, k.id) // another was faster
	}
	return done, err
}
