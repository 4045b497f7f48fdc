package auditor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/verify/inventorystate"
)

// readInventory reads the inventory of a sale. With held it also reads the reservations.
func (a *Auditor) readInventory(ctx context.Context, s *saleRow, held bool) (inventorystate.State, error) {
	switch {
	case a.config.Inventory != nil:
		return a.config.Inventory(ctx, s.id, s.epoch)
	case a.config.Redis != nil:
		return inventorystate.Read(ctx, a.config.Redis, a.config.Prefix, s.id, held)
	}
	return inventorystate.State{}, inventorystate.ErrNone
}

// sampleInventory checks the inventory of a sale next to a sample. Inventory and ledger are read
// at different times, so it checks only what holds at any time.
func (a *Auditor) sampleInventory(ctx context.Context, s saleRow) {
	if s.state == "ended" || s.recovering == 1 {
		return
	}
	g, err := a.readInventory(ctx, &s, false)
	if err != nil || g.Epoch != s.epoch {
		if err != nil && !errors.Is(err, inventorystate.ErrNone) && ctx.Err() == nil {
			a.records.addError("inventory", err)
		}
		return
	}
	// Units may just have been added to one of them.
	stock := max(s.stock, g.Stock)
	a.records.check(Bounded, g.Outstanding <= s.headroom*stock, "sale %s: %d admission tokens are outstanding, want at most %d × %d",
		s.id, g.Outstanding, s.headroom, stock)
	a.records.check(NoOversell, g.Free >= 0 && g.Free <= g.Stock, "sale %s: the inventory has %d free units of %d", s.id, g.Free, g.Stock)
}

// compareInventories reconciles each sale, compares inventory and ledger, and reconciles again.
func (a *Auditor) compareInventories(ctx context.Context, f Facts) error {
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
				a.records.addError("reconcile "+s.id, err)
				continue
			}
		}
		if err := a.compareInventory(ctx, s.id); err != nil && !errors.Is(err, inventorystate.ErrNone) {
			a.records.addError("inventory of "+s.id, err)
		}
		if f.Reconcile != nil {
			changed, err := f.Reconcile(ctx, s.id)
			if err != nil {
				a.records.addError("reconcile "+s.id, err)
				continue
			}
			a.records.check(InventoryMatchesLedger, changed == 0, "sale %s: a second reconciliation changed %d rows", s.id, changed)
		}
	}
	return nil
}

// compareInventory compares when both are stable. StableWithin is the time for changes to end,
// not for reading: one comparison is complete, however slow.
func (a *Auditor) compareInventory(ctx context.Context, id string) error {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for end := time.Now().Add(a.config.StableWithin); ; {
		err := a.compareOnce(ctx, id)
		if err == nil || errors.Is(err, inventorystate.ErrNone) && a.config.Inventory == nil && a.config.Redis == nil {
			return err
		}
		if errors.Is(err, inventorystate.ErrNone) {
			err = errors.New("no state")
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case now := <-t.C:
			if now.After(end) {
				return fmt.Errorf("not compared within %s: %w", a.config.StableWithin, err)
			}
		}
	}
}

// compareOnce compares if the inventory is the same before and after the ledger is read.
func (a *Auditor) compareOnce(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // far above what a busy machine takes
	defer cancel()
	s, _, _, err := a.holders(ctx, id)
	if err != nil {
		return err
	}
	before, err := a.readInventory(ctx, s, true)
	if err != nil {
		return err
	}
	s, live, moving, err := a.holders(ctx, id)
	if err != nil {
		return err
	}
	after, err := a.readInventory(ctx, s, true)
	if err != nil {
		return err
	}
	if moving || before.Backlog != 0 || !same(before, after) || s.recovering != 0 {
		return fmt.Errorf("not stable (backlog %d, units in flight %t)", before.Backlog, moving)
	}
	a.checkInventory(s, after, live)
	return nil
}

func same(a, b inventorystate.State) bool {
	return a.Epoch == b.Epoch && a.Stock == b.Stock && a.Free == b.Free && a.Backlog == b.Backlog && slices.Equal(a.Held, b.Held)
}

// holders returns a sale, the reservations that hold a unit in the ledger, and whether a unit is
// being returned to the inventory.
func (a *Auditor) holders(ctx context.Context, id string) (*saleRow, []string, bool, error) {
	var s *saleRow
	live, moving := []string{}, false
	err := a.db.snapshot(ctx, func(tx *sql.Tx) error {
		sales, err := a.db.sales(ctx, tx, []string{id})
		if err != nil {
			return err
		}
		if len(sales) != 1 {
			return fmt.Errorf("sale %s was deleted", id)
		}
		s = &sales[0]
		orders, err := a.db.orders(ctx, tx)
		for _, o := range orders {
			if o.sale != id {
				continue
			}
			if o.live() {
				live = append(live, inventorystate.Held(o.id, o.quantity))
			}
			moving = moving || o.isOrder() && !o.live() && o.returned == 0
		}
		return err
	})
	slices.Sort(live)
	return s, live, moving, err
}

func (a *Auditor) checkInventory(s *saleRow, g inventorystate.State, live []string) {
	b := a.records
	b.check(InventoryMatchesLedger, g.Epoch == s.epoch, "sale %s: the inventory is at epoch %d, the ledger at %d", s.id, g.Epoch, s.epoch)
	b.check(InventoryMatchesLedger, g.Stock == s.stock, "sale %s: the inventory has %d units, the ledger %d", s.id, g.Stock, s.stock)
	b.check(InventoryMatchesLedger, g.Free == s.stock-s.sold, "sale %s: the inventory has %d free units, the ledger %d", s.id, g.Free, s.stock-s.sold)
	if g.Held == nil {
		return
	}
	held := slices.Sorted(slices.Values(g.Held))
	b.check(InventoryMatchesLedger, slices.Equal(held, live), "sale %s: the inventory has %d reservations, the ledger %d: %s",
		s.id, len(held), len(live), firstDifference(held, live))
}

// firstDifference returns an element that only one of two sorted lists has.
func firstDifference(inventory, ledger []string) string {
	for _, id := range inventory {
		if _, ok := slices.BinarySearch(ledger, id); !ok {
			return id + " is only in the inventory"
		}
	}
	for _, id := range ledger {
		if _, ok := slices.BinarySearch(inventory, id); !ok {
			return id + " is only in the ledger"
		}
	}
	return "none"
}

// settled checks what holds after all buyers have stopped and all payment deadlines have passed.
func (a *Auditor) settled(ctx context.Context, l *ledgerRows, f Facts) {
	b := a.records
	for i := range l.sales {
		s := &l.sales[i]
		var pending, paid, refunded int64
		for _, o := range l.orders[s.id] {
			switch {
			case o.state == "pending_pay":
				pending += o.quantity
				b.check(TicketsEnd, false, "sale %s: order %s is still pending", s.id, o.id)
			case o.state == "paid":
				paid += o.quantity
			case o.refunded():
				refunded += o.quantity
			}
			if o.isOrder() && !o.live() && s.state != "ended" {
				b.check(NoUndersell, o.returned == 1, "sale %s: the units of %s, which is %s, were not returned to the inventory", s.id, o.id, o.state)
			}
		}
		b.passed(TicketsEnd, 1)
		b.check(NoUndersell, paid+(s.stock-s.sold) == s.stock, "sale %s: %d paid and %d free units, want %d in total", s.id, paid, s.stock-s.sold, s.stock)
		if wanted, known := f.Demand[s.id]; known {
			// Of several units for one order, the last ones may be too few.
			want := min(wanted, s.stock) - (s.maxQuantity - 1)
			b.check(NoUndersell, paid+refunded >= want, "sale %s: buyers wanted %d units, %d of %d are paid", s.id, wanted, paid, s.stock)
		}
		if s.state == "ended" || s.recovering == 1 {
			continue
		}
		g, err := a.readInventory(ctx, s, false)
		switch {
		case err == nil:
			b.check(NoUndersell, g.Free == s.stock-s.sold && g.Epoch == s.epoch,
				"sale %s: %d units are free, %d can be bought (epochs %d and %d)", s.id, s.stock-s.sold, g.Free, s.epoch, g.Epoch)
		case !errors.Is(err, inventorystate.ErrNone):
			b.addError("inventory", err)
		}
	}
}
