package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// NextEpoch implements sale.Ledger.
func (l *sales) NextEpoch(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return l.changeSale(ctx, "next epoch", id, func(x *database.Tx, k saleRow) error {
		if k.State != sale.Exposed && k.State != sale.Paused {
			return fmt.Errorf("%w: sale %s is %s, want exposed or paused", sale.ErrConflict, k.ID, k.State)
		}
		if k.Epoch != epoch {
			return fmt.Errorf("%w: sale %s is at epoch %d, not %d", sale.ErrConflict, k.ID, k.Epoch, epoch)
		}
		why := k.StateReason
		if k.State == sale.Exposed {
			why = sale.Recovering
		}
		if _, err := x.Exec("UPDATE sales SET state = 'paused', why = $2, recovering = 1, epoch = epoch + 1, version = version + 1 WHERE id = $1",
			k.ID, why); err != nil {
			return err
		}
		return appendAudit(x, "flashsale", k.ID, fmt.Sprintf("recovers, epoch %d", epoch+1), now)
	})
}

// MarkRecovered implements sale.Ledger. It exposes a sale that was paused for its recovery
// alone. It changes nothing if it was called before, or if the sale has ended.
func (l *sales) MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return l.changeSale(ctx, "recovered", id, func(x *database.Tx, k saleRow) error {
		if k.Epoch != epoch {
			return fmt.Errorf("%w: sale %s is at epoch %d, not %d", sale.ErrConflict, k.ID, k.Epoch, epoch)
		}
		if !k.recovering {
			return nil
		}
		state, why := k.State, k.StateReason
		if why == sale.Recovering {
			state, why = sale.Exposed, ""
		}
		if _, err := x.Exec("UPDATE sales SET state = $2, why = $3, recovering = 0, version = version + 1 WHERE id = $1", k.ID, string(state), why); err != nil {
			return err
		}
		return appendAudit(x, "flashsale", k.ID, fmt.Sprintf("recovered, epoch %d", epoch), now)
	})
}

// InitialState implements sale.Ledger. Pending is empty, because a recovery drains the stream of
// the earlier epoch.
func (l *sales) InitialState(ctx context.Context, id string) (sale.InitialState, error) {
	var o sale.InitialState
	err := fail("opening", l.db.Do(ctx, database.Read, func(x *database.Tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		orders, err := database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE sale = $1 AND state IN ('pending_pay', 'paid') ORDER BY at, reservation", k.ID)
		o = sale.InitialState{Sale: k.Sale, Reserved: make([]sale.Reservation, len(orders))}
		for i := range orders {
			o.Reserved[i] = orders[i].Reservation
		}
		return err
	}))
	if err != nil {
		return sale.InitialState{}, err
	}
	return o, nil
}
