package auditor

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// requireSales checks that the sales of Config.Sales, or any sale, can be audited. With
// watched a sale may be a draft, and without Config.Sales there may be no sale yet.
func (a *Auditor) requireSales(ctx context.Context, watched bool) error {
	type row struct{ id, state string }
	var all []row
	err := a.db.snapshot(ctx, func(tx *sql.Tx) (err error) {
		all, err = rows(ctx, tx, `SELECT id, state FROM sales`, func(r *row) ([]any, func() bool) { return []any{&r.id, &r.state}, nil })
		return err
	})
	if err != nil {
		return fmt.Errorf("auditor: sales: %w", err)
	}
	states, exposed := map[string]string{}, 0
	for _, r := range all {
		if states[r.id] = r.state; r.state != "draft" {
			exposed++
		}
	}
	for _, id := range a.config.Sales {
		switch state, found := states[id]; {
		case !found:
			return fmt.Errorf("%w: sale %.70q: want the ID of a sale that the database has", ErrNothing, id)
		case state == "draft" && !watched:
			return fmt.Errorf("%w: sale %.70q: got a draft, want one that was exposed", ErrNothing, id)
		}
	}
	if exposed == 0 && !watched {
		return fmt.Errorf("%w: the database has %d sales, want one that was exposed", ErrNothing, len(all))
	}
	return nil
}

// totals are the sums of a sale in one sample.
type totals struct {
	pending, paid  int64 // units of orders
	refunded       int64 // units of orders that were paid before
	moved, stocked int64 // sums of movements
}

// sample checks the sums of each sale, read in one snapshot.
func (a *Auditor) sample(ctx context.Context) error {
	var sales []saleRow
	tallies := map[string]*totals{}
	of := func(id string) *totals {
		t := tallies[id]
		if t == nil {
			t = &totals{}
			tallies[id] = t
		}
		return t
	}
	type group struct {
		sale, word string
		n, sum     int64
	}
	scan := func(g *group) ([]any, func() bool) { return []any{&g.sale, &g.word, &g.n, &g.sum}, nil }
	var many, due []group
	err := a.db.snapshot(ctx, func(tx *sql.Tx) (err error) {
		if sales, err = a.db.sales(ctx, tx, a.config.Sales); err != nil {
			return err
		}
		states, err := rows(ctx, tx, `SELECT sale, state, cast(sum(quantity) AS bigint), 0 FROM orders GROUP BY sale, state`, scan)
		if err != nil {
			return err
		}
		for _, g := range states {
			switch t := of(g.sale); g.word {
			case "pending_pay":
				t.pending = g.n
			case "paid":
				t.paid = g.n
			}
		}
		refunded, err := rows(ctx, tx, `SELECT sale, note, cast(sum(quantity) AS bigint), 0 FROM orders WHERE state = 'cancelled' AND note = 'refunded' GROUP BY sale, note`, scan)
		if err != nil {
			return err
		}
		for _, g := range refunded {
			of(g.sale).refunded = g.n
		}
		moved, err := rows(ctx, tx, `SELECT sale, kind, count(*), cast(sum(units) AS bigint) FROM movements GROUP BY sale, kind`, scan)
		if err != nil {
			return err
		}
		for _, g := range moved {
			t := of(g.sale)
			t.moved += g.sum
			if g.word == "stock" {
				t.stocked = g.sum
			}
		}
		many, err = rows(ctx, tx, `SELECT o.sale, o.usr, cast(sum(o.quantity) AS bigint), 0 FROM orders o JOIN sales s ON s.id = o.sale
			WHERE o.state IN ('pending_pay', 'paid') GROUP BY o.sale, o.usr, s.per_user HAVING sum(o.quantity) > s.per_user`, scan)
		if err != nil {
			return err
		}
		late := time.Now().Add(-a.config.Slack).UnixMilli()
		due, err = rows(ctx, tx, fmt.Sprintf(`SELECT sale, min(reservation), count(*), 0 FROM orders
			WHERE state = 'pending_pay' AND pay_by < %d GROUP BY sale`, late), scan)
		return err
	})
	if err != nil {
		return err
	}
	a.records.addSample()
	for _, s := range sales {
		a.checkSample(s, *of(s.id))
	}
	mine := map[string]bool{}
	for _, s := range sales {
		mine[s.id] = true
	}
	for _, g := range many {
		if mine[g.sale] {
			a.records.check(PerUser, false, "sale %s: user %s holds %d units", g.sale, g.word, g.n)
		}
	}
	for _, g := range due {
		if mine[g.sale] {
			a.records.check(TicketsEnd, false, "sale %s: order %s and others are pending %s after their payment deadline", g.sale, g.word, a.config.Slack)
		}
	}
	a.records.passed(PerUser, len(sales))
	a.records.passed(TicketsEnd, len(sales))
	for _, s := range sales {
		a.sampleInventory(ctx, s)
	}
	return nil
}

func (a *Auditor) checkSample(s saleRow, t totals) {
	b := a.records
	live := t.pending + t.paid
	b.check(NoOversell, live <= s.stock, "sale %s: %d units of orders are pending or paid, stock is %d", s.id, live, s.stock)
	b.check(NoOversell, s.sold == live, "sale %s: counter sold is %d, %d units of orders are pending or paid", s.id, s.sold, live)
	b.check(NoOversell, s.paid == t.paid, "sale %s: counter paid is %d, %d units of orders are paid", s.id, s.paid, t.paid)
	b.check(NoOversell, t.stocked == s.stock, "sale %s: stock movements add up to %d, stock is %d", s.id, t.stocked, s.stock)
	b.check(NoOversell, t.moved == s.stock-live, "sale %s: movements add up to %d, expected %d − %d", s.id, t.moved, s.stock, live)

	a.mu.Lock()
	defer a.mu.Unlock()
	before, seen := a.before[s.id]
	s.refunded = t.refunded
	a.before[s.id] = s
	if seen {
		b.check(NoOversell, s.stock >= before.stock, "sale %s: stock decreased from %d to %d", s.id, before.stock, s.stock)
		b.check(PayOrTimeout, s.paid+s.refunded >= before.paid+before.refunded, "sale %s: paid and refunded units decreased from %d to %d",
			s.id, before.paid+before.refunded, s.paid+s.refunded)
		b.check(OneOrder, s.epoch >= before.epoch, "sale %s: epoch decreased from %d to %d", s.id, before.epoch, s.epoch)
	}
}
