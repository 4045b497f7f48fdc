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

// InitialState implements sale.Ledger. Read after NextEpoch it has every order of the earlier
// epochs, because those reservations are fenced. Pending is empty, because a recovery drains the
// stream of the earlier epoch.
func (l *sales) InitialState(ctx context.Context, id string) (sale.InitialState, error) {
	var o sale.InitialState
	err := fail("opening", l.db.Do(ctx, database.ReadAll, func(x *database.Tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		orders, err := database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE sale = $1 AND state IN ('pending_pay', 'paid') ORDER BY at, reservation", k.ID)
		o = sale.InitialState{Sale: k.Sale, Reserved: make([]sale.Reservation, len(orders))}
		for i := range orders {
			o.Reserved[i] = orders[i].Reservation
		}
		if err != nil {
			return err
		}
		unpaid, err := database.List(x, scanUnpaid, "SELECT usr, COUNT(*) FROM orders WHERE sale = $1 AND state IN ('expired', 'cancelled') AND note <> $2 GROUP BY usr", k.ID, refundedNote)
		for _, u := range unpaid {
			if o.Unpaid == nil {
				o.Unpaid = make(map[string]int, len(unpaid))
			}
			o.Unpaid[u.user] = int(u.n)
		}
		return err
	}))
	if err != nil {
		return sale.InitialState{}, err
	}
	return o, nil
}

// unpaid is the number of orders that a user left unpaid.
type unpaid struct {
	user string
	n    int64
}

func scanUnpaid(scan func(...any) error) (u unpaid, err error) {
	err = scan(&u.user, &u.n)
	return u, err
}

// Payments implements sale.Ledger.
func (l *sales) Payments(ctx context.Context, id string, max int) (sale.Payments, error) {
	var p sale.Payments
	const steps = int64(len(p.After))
	err := fail("payments", l.db.Do(ctx, database.ReadAll, func(x *database.Tx) error {
		p = sale.Payments{}
		_, err := database.List(x, func(scan func(...any) error) (struct{}, error) {
			var ms, units int64
			err := scan(&ms, &units)
			for ; units > 0 && len(p.PayBy) < max; units-- {
				p.PayBy = append(p.PayBy, database.TimeOf(ms))
			}
			return struct{}{}, err
		}, "SELECT pay_by, quantity FROM orders WHERE sale = $1 AND state = 'pending_pay' ORDER BY pay_by LIMIT $2", id, max)
		if err != nil {
			return err
		}
		if _, err := database.List(x, func(scan func(...any) error) (struct{}, error) {
			var step, units int64
			err := scan(&step, &units)
			if step < 0 { // another process, whose clock is behind, created the order
				step = 0
			}
			p.After[min(steps-1, step)] += units
			return struct{}{}, err
		}, "SELECT (changed - at) * $2 / (pay_by - at) AS step, sum(quantity) FROM orders WHERE sale = $1 AND state = 'paid' AND pay_by > at GROUP BY step", id, steps); err != nil {
			return err
		}
		return x.Row(`SELECT coalesce(sum(CASE WHEN state = 'paid' THEN quantity ELSE 0 END), 0),
			coalesce(sum(CASE WHEN state IN ('expired', 'cancelled') THEN quantity ELSE 0 END), 0), coalesce(avg(1.0 * quantity), 1)
			FROM orders WHERE sale = $1 AND state IN ('pending_pay', 'paid', 'expired', 'cancelled')`, id).Scan(&p.Paid, &p.Unpaid, &p.PerOrder)
	}))
	return p, err
}
