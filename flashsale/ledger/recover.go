package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// NextEpoch gives a sale that is at epoch the next one, and says that it recovers.
func (l *Ledger) NextEpoch(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return l.changeSale(ctx, "next epoch", id, func(x *tx, k kept) error {
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
		if _, err := x.exec("UPDATE sales SET state = 'paused', why = $2, recovering = 1, epoch = epoch + 1, version = version + 1 WHERE id = $1",
			k.ID, why); err != nil {
			return err
		}
		return note(x, "flashsale", k.ID, fmt.Sprintf("recovers, epoch %d", epoch+1), now)
	})
}

// Recovered says that the Inventory of a sale has its state at epoch: a sale that was paused for
// its recovery alone is exposed again. Said again it changes nothing; of a sale that ended
// meanwhile neither.
func (l *Ledger) MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return l.changeSale(ctx, "recovered", id, func(x *tx, k kept) error {
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
		if _, err := x.exec("UPDATE sales SET state = $2, why = $3, recovering = 0, version = version + 1 WHERE id = $1", k.ID, string(state), why); err != nil {
			return err
		}
		return note(x, "flashsale", k.ID, fmt.Sprintf("recovered, epoch %d", epoch), now)
	})
}

// InitialState returns what the Inventory's state is built from: the sale, and the units that its
// pending and paid orders hold. Before is empty: a stream is read to its end by Place.
func (l *Ledger) InitialState(ctx context.Context, id string) (sale.InitialState, error) {
	var o sale.InitialState
	err := l.read(ctx, "opening", func(x *tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		orders, err := list(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE sale = $1 AND state IN ('pending_pay', 'paid') ORDER BY at, reservation", k.ID)
		o = sale.InitialState{Sale: k.Sale, Reserved: make([]sale.Reservation, len(orders))}
		for i := range orders {
			o.Reserved[i] = orders[i].Reservation
		}
		return err
	})
	if err != nil {
		return sale.InitialState{}, err
	}
	return o, nil
}
