package auditor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// watchGate looks at the inventory of a sale beside a sample. Inventory and ledger are two moments
// here, so only what holds at any moment is judged.
func (a *Auditor) watchGate(ctx context.Context, s saleRow) {
	if s.state == "ended" || s.recovering == 1 {
		return
	}
	g, err := a.gate(ctx, &s, false)
	if err != nil || g.Epoch != s.epoch {
		if err != nil && !errors.Is(err, errNoGate) && ctx.Err() == nil {
			a.book.failed("gate", err)
		}
		return
	}
	// Units may have been added to either a moment ago.
	stock := max(s.stock, g.Stock)
	a.book.check(Bounded, g.Outstanding <= s.headroom*stock, "sale %s: %d admission tokens are out, at most %d × %d may be",
		s.id, g.Outstanding, s.headroom, stock)
	a.book.check(NoOversell, g.Free >= 0 && g.Free <= g.Stock, "sale %s: its gate has %d free units of %d", s.id, g.Free, g.Stock)
}

// compareGates lets the shop reconcile, compares, and lets it reconcile again.
func (a *Auditor) compareGates(ctx context.Context, f Facts) error {
	var sales []saleRow
	err := a.db.snapshot(ctx, func(tx *sql.Tx) (err error) {
		sales, err = a.db.sales(ctx, tx, a.config.Sales)
		return err
	})
	if err != nil {
		return err
	}
	for i := range sales {
		s := &sales[i]
		if s.state == "ended" {
			continue
		}
		if f.Reconcile != nil {
			if _, err := f.Reconcile(ctx, s.id); err != nil {
				a.book.failed("reconcile "+s.id, err)
				continue
			}
		}
		if err := a.compareGate(ctx, s.id); err != nil && !errors.Is(err, errNoGate) {
			a.book.failed("gate of "+s.id, err)
		}
		if f.Reconcile != nil {
			changed, err := f.Reconcile(ctx, s.id)
			if err != nil {
				a.book.failed("reconcile "+s.id, err)
				continue
			}
			a.book.check(GateIsLedger, changed == 0, "sale %s: reconciled a second time, and %d rows changed", s.id, changed)
		}
	}
	return nil
}

// compareGate compares when neither moves: the inventory says the same before and after the
// ledger is read, and nothing is on its way between them.
func (a *Auditor) compareGate(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, a.config.Rest)
	defer cancel()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	var last error
	for {
		s, _, moving, err := a.holders(ctx, id)
		if err != nil {
			return errors.Join(err, last)
		}
		before, err := a.gate(ctx, s, true)
		if err == nil {
			var live []string
			s, live, moving, err = a.holders(ctx, id)
			if err == nil {
				var after GateState
				after, err = a.gate(ctx, s, true)
				if err == nil && !moving && before.Backlog == 0 && same(before, after) && s.recovering == 0 {
					a.judgeGate(s, after, live)
					return nil
				}
			}
		}
		if errors.Is(err, errNoGate) && a.config.Gate == nil && a.config.Redis == nil {
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			if errors.Is(last, errNoGate) {
				last = errors.New("it has no state")
			}
			return errors.Join(fmt.Errorf("it did not come to rest within %s (backlog %d, moving %t)", a.config.Rest, before.Backlog, moving), last)
		case <-t.C:
		}
	}
}

func same(a, b GateState) bool {
	return a.Epoch == b.Epoch && a.Stock == b.Stock && a.Free == b.Free && a.Backlog == b.Backlog && slices.Equal(a.Held, b.Held)
}

// holders returns a sale, the reservations that hold a unit in the ledger, and whether a
// unit is on its way back to the inventory.
func (a *Auditor) holders(ctx context.Context, id string) (*saleRow, []string, bool, error) {
	var s *saleRow
	live, moving := []string{}, false
	err := a.db.snapshot(ctx, func(tx *sql.Tx) error {
		sales, err := a.db.sales(ctx, tx, []string{id})
		if err != nil {
			return err
		}
		if len(sales) != 1 {
			return fmt.Errorf("sale %s is not there any more", id)
		}
		s = &sales[0]
		orders, err := a.db.orders(ctx, tx)
		for _, o := range orders {
			if o.sale != id {
				continue
			}
			if o.live() {
				live = append(live, o.id)
			}
			moving = moving || o.isOrder() && !o.live() && o.returned == 0
		}
		return err
	})
	slices.Sort(live)
	return s, live, moving, err
}

func (a *Auditor) judgeGate(s *saleRow, g GateState, live []string) {
	b := a.book
	b.check(GateIsLedger, g.Epoch == s.epoch, "sale %s: its gate is at epoch %d, its ledger at %d", s.id, g.Epoch, s.epoch)
	b.check(GateIsLedger, g.Stock == s.stock, "sale %s: its gate has %d units, its ledger %d", s.id, g.Stock, s.stock)
	b.check(GateIsLedger, g.Free == s.stock-s.sold, "sale %s: its gate has %d free units, its ledger %d", s.id, g.Free, s.stock-s.sold)
	if g.Held == nil {
		return
	}
	held := slices.Sorted(slices.Values(g.Held))
	b.check(GateIsLedger, slices.Equal(held, live), "sale %s: its gate holds %d reservations, its ledger %d, and they differ: %s",
		s.id, len(held), len(live), firstDifference(held, live))
}

// firstDifference names an element that only one of two sorted lists has.
func firstDifference(gate, ledger []string) string {
	for _, id := range gate {
		if _, ok := slices.BinarySearch(ledger, id); !ok {
			return id + " is in the gate alone"
		}
	}
	for _, id := range ledger {
		if _, ok := slices.BinarySearch(gate, id); !ok {
			return id + " is in the ledger alone"
		}
	}
	return "none"
}

// settled judges what holds when nobody buys any more and the times to pay are over.
func (a *Auditor) settled(ctx context.Context, l *ledger, f Facts) {
	b := a.book
	for i := range l.sales {
		s := &l.sales[i]
		var pending, paid int64
		for _, o := range l.orders[s.id] {
			switch {
			case o.state == "pending_pay":
				pending++
				b.check(TicketsEnd, false, "sale %s: order %s is pending still", s.id, o.id)
			case o.state == "paid":
				paid++
			}
			if o.isOrder() && !o.live() && s.state != "ended" {
				b.check(NoUndersell, o.returned == 1, "sale %s: the unit of %s, which is %s, was not given back to the gate", s.id, o.id, o.state)
			}
		}
		b.held(TicketsEnd, 1)
		b.check(NoUndersell, paid+(s.stock-s.sold) == s.stock, "sale %s: %d paid and %d free are not the %d units", s.id, paid, s.stock-s.sold, s.stock)
		if wanted, known := f.Demand[s.id]; known {
			want := min(wanted, s.stock)
			b.check(NoUndersell, paid >= want, "sale %s: %d units were wanted to the end, and %d of %d are paid", s.id, wanted, paid, s.stock)
		}
		if s.state == "ended" || s.recovering == 1 {
			continue
		}
		g, err := a.gate(ctx, s, false)
		switch {
		case err == nil:
			b.check(NoUndersell, g.Free == s.stock-s.sold && g.Epoch == s.epoch,
				"sale %s: %d units are free, and %d can be bought (epochs %d and %d)", s.id, s.stock-s.sold, g.Free, s.epoch, g.Epoch)
		case !errors.Is(err, errNoGate):
			b.failed("gate", err)
		}
	}
}
