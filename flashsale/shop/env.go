package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// env holds what all parts of a Shop use: the stores, the clocks, the log and the counters.
type env struct {
	inventory     sale.Inventory
	ledger        sale.Ledger
	clock         func() time.Time
	inventoryTime inventoryClock
	stats         counters
	log           *slog.Logger
	crash         crashpoint.Hook
	timeout       time.Duration // of one call to the inventory or the ledger
	began         time.Time
	streams       *readyStreams
	busy          atomic.Int64 // busy sales
}

// uptime returns the time since New by a clock that is never set.
func (e *env) uptime() time.Duration { return time.Since(e.began) }

// now returns the time by which orders are judged.
func (e *env) now() time.Time { return e.inventoryTime.now(e.clock()) }

// call returns ctx with the timeout of one call.
func (e *env) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.timeout)
}

// callToEnd is call for work that has to complete even if ctx is canceled.
func (e *env) callToEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.timeout)
}

// count reads the inventory's counts of a sale, and its clock.
func (e *env) count(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	ctx, cancel := e.call(ctx)
	defer cancel()
	c, err := e.inventory.Counts(ctx, id, epoch)
	if err == nil {
		e.inventoryTime.set(c.Now, e.clock())
	}
	return c, err
}

// follow sets the pause and the stock of the inventory to those of row.
func (e *env) follow(ctx context.Context, row sale.Sale) {
	if err := e.inventory.SetPaused(ctx, row.ID, row.Epoch, row.State != sale.Exposed); err != nil {
		e.log.Warn("cannot pause or resume inventory, will retry", "sale", row.ID, "error", err)
		return
	}
	// ErrInvalid means that the inventory has more units: another process has added some.
	err := e.inventory.SetStock(ctx, row.ID, row.Epoch, row.Stock)
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		e.log.Warn("cannot add units to inventory, will retry", "sale", row.ID, "error", err)
	}
}

// nextEpoch takes the epoch after the given one, which fences the stream of that one, and
// reports whether it did. If another process was faster, or if the sale has ended, it returns
// the row that the ledger has.
func (e *env) nextEpoch(ctx context.Context, id string, epoch int64) (row sale.Sale, took bool, err error) {
	ctx, cancel := e.call(ctx)
	defer cancel()
	row, err = e.ledger.NextEpoch(ctx, id, epoch, e.clock())
	if errors.Is(err, sale.ErrConflict) {
		row, err = e.ledger.Sale(ctx, id)
		return row, false, err
	}
	return row, err == nil, err
}

// signal wakes the goroutine that receives from c. It does not block.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wrap adds the operation to err. An error that is none of those of package sale becomes
// ErrUnavailable.
func wrap(operation string, err error) error {
	for _, known := range []error{sale.ErrUnavailable, sale.ErrNotFound, sale.ErrConflict, sale.ErrInvalid} {
		if errors.Is(err, known) {
			return fmt.Errorf("shop: %s: %w", operation, err)
		}
	}
	return fmt.Errorf("shop: %s: %w: %w", operation, sale.ErrUnavailable, err)
}

// newID returns a unique ID that sorts by time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("shop: no randomness: " + err.Error()) // crypto/rand has ended the process already
	}
	return id.String()
}
