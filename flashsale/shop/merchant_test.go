package shop_test

import (
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestMerchants checks what a merchant can do in which state, and that other merchants cannot.
func TestMerchants(t *testing.T) {
	inShop(t, func(w *world) {
		bad := draft(0)
		if _, err := w.Create(w.ctx, "m", "", bad); !isInvalid(err) || !strings.Contains(err.Error(), "stock") {
			t.Errorf("create without units: %v", err)
		}
		s, err := w.Create(w.ctx, "m", "", draft(5))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.View(w.ctx, s.ID); !isNotFound(err) {
			t.Errorf("buyers see a draft: %v", err)
		}
		d := draft(7)
		if s, err = w.Edit(w.ctx, "m", s.ID, s.Version, d); err != nil || s.Stock != 7 {
			t.Fatal(s, err)
		}
		if _, err := w.Edit(w.ctx, "m", s.ID, s.Version-1, d); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("edit of an old version: %v", err)
		}
		for what, f := range map[string]func() error{
			"get":       func() error { _, err := w.Sale(w.ctx, "n", s.ID); return err },
			"copy":      func() error { _, err := w.Copy(w.ctx, "n", s.ID, "k"); return err },
			"cancel":    func() error { _, err := w.CancelOrder(w.ctx, "n", s.ID, "r", "typo"); return err },
			"refund":    func() error { _, err := w.RefundOrder(w.ctx, "n", s.ID, "r", "typo"); return err },
			"edit":      func() error { _, err := w.Edit(w.ctx, "n", s.ID, s.Version, d); return err },
			"check":     func() error { _, err := w.Check(w.ctx, "n", s.ID); return err },
			"warm":      func() error { return w.Warm(w.ctx, "n", s.ID) },
			"expose":    func() error { _, err := w.Expose(w.ctx, "n", s.ID); return err },
			"pause":     func() error { _, err := w.Pause(w.ctx, "n", s.ID); return err },
			"resume":    func() error { _, err := w.Resume(w.ctx, "n", s.ID); return err },
			"end":       func() error { _, err := w.End(w.ctx, "n", s.ID, true); return err },
			"stock":     func() error { _, err := w.AddStock(w.ctx, "n", s.ID, "k", 1); return err },
			"board":     func() error { _, err := w.Dashboard(w.ctx, "n", s.ID); return err },
			"report":    func() error { return w.Report(w.ctx, "n", s.ID, true, &strings.Builder{}) },
			"export":    func() error { return w.EachOrder(w.ctx, "n", s.ID, nil) },
			"reconcile": func() error { _, err := w.Reconcile(w.ctx, "n", s.ID); return err },
			"log":       func() error { _, err := w.AuditLog(w.ctx, "n", s.ID); return err },
		} {
			if err := f(); !isNotFound(err) {
				t.Errorf("%s by another merchant: %v, want not found", what, err)
			}
		}
		if faults, err := w.Check(w.ctx, "m", s.ID); err != nil || len(faults) != 0 {
			t.Errorf("check: %v, %v", faults, err)
		}
		if _, err := w.Expose(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Expose(w.ctx, "m", s.ID); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("exposed twice: %v", err)
		}
		w.opens(s)
		for range 2 {
			if got, err := w.AddStock(w.ctx, "m", s.ID, "more", 3); err != nil || got.Stock != 10 {
				t.Errorf("add units: %+v, %v", got, err)
			}
		}
		if c, _ := w.engine.Counts(w.ctx, s.ID, 1); c.Stock != 10 || c.Free != 10 {
			t.Errorf("inventory has %+v", c)
		}
		b := w.buys(w, "alice", s.ID)
		w.order(w, "alice", b.Receipt.Receipt)
		board, err := w.Dashboard(w.ctx, "m", s.ID)
		if err != nil || board.Totals.Pending != 1 || board.Admitted != 1 || board.Workers != 2 || board.DrainRate < 50 {
			t.Errorf("board: %+v, %v", board, err)
		}
		// Paused behind the shop's back, the Inventory follows the Ledger.
		if err := w.engine.SetPaused(w.ctx, s.ID, 1, true); err != nil {
			t.Fatal(err)
		}
		after(500 * time.Millisecond)
		if c, _ := w.engine.Counts(w.ctx, s.ID, 1); c.Paused {
			t.Error("the inventory stays paused though the ledger says exposed")
		}
		if _, err := w.Pause(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		if turn, _ := w.Join(w.ctx, "bob", s.ID, ""); turn.Reason != sale.IsPaused {
			t.Errorf("join while paused: %+v", turn)
		}
		if _, err := w.Resume(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		if b := w.buys(w, "bob", s.ID); b.Reason != sale.OK {
			t.Errorf("after it was resumed: %+v", b)
		}
		lines, err := w.AuditLog(w.ctx, "m", s.ID)
		if err != nil || len(lines) < 4 {
			t.Errorf("log: %v, %v", lines, err)
		}
	})
}

// TestCheckNames: Check says what is wrong, and Expose refuses it.
func TestCheckNames(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gate = gone{w.engine}
		w.Shop = w.started("a", func(c *shop.Config) { c.Limits = w.limits })
		defer w.Shop.Stop()
		d := draft(5)
		d.StartsAt, d.EndsAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		s, err := w.Create(w.ctx, "m", "", d)
		if err != nil {
			t.Fatal(err)
		}
		faults, err := w.Check(w.ctx, "m", s.ID)
		if text := strings.Join(faults, "\n"); err != nil || !strings.Contains(text, "ends_at") || !strings.Contains(text, "inventory unavailable") {
			t.Errorf("check: %q, %v", faults, err)
		}
		if _, err := w.Expose(w.ctx, "m", s.ID); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("expose: %v, want ErrConflict", err)
		}
		if err := w.Warm(w.ctx, "m", s.ID); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("warm: %v, want ErrConflict", err)
		}
	})
}

// gone is an Inventory that cannot be asked to count.
type gone struct{ sale.Inventory }

func (gone) Counts(context.Context, string, int64) (sale.Counts, error) {
	return sale.Counts{}, sale.ErrUnavailable
}

// TestEndsByItself checks that a sale ends at its time, that waiting users are informed, and
// that pending orders can still be paid.
func TestEndsByItself(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(1)
		d.EndsAt = time.Now().Add(8 * time.Second)
		s := w.exposed(d)
		w.opens(s)
		b := w.buys(w, "alice", s.ID)
		waits := w.admitted(w, "bob", s.ID)
		if waits.Reason != sale.HasEnded || time.Until(s.EndsAt) < -2*time.Second {
			t.Errorf("bob waited until %v after the end: %+v", -time.Until(s.EndsAt), waits)
		}
		w.until("the end in the ledger", 2*time.Second, func() bool {
			row, err := w.ledger.Sale(w.ctx, s.ID)
			return err == nil && row.State == sale.Ended
		})
		w.pays("alice", b.Receipt.Receipt)
		w.until("the inventory's state to be dropped", 5*time.Second, func() bool {
			_, err := w.engine.Counts(w.ctx, s.ID, 1)
			return errors.Is(err, sale.ErrStale)
		})
	})
}

// TestReportCells checks that no cell of a report is a formula to a spreadsheet, and every line can be
// read again.
func TestReportCells(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(10))
		w.opens(s)
		users := []string{`=cmd|' /C calc'!A0`, "+1", "-1", "@sum", "a,b", `q"uote`, "plain"}
		for _, user := range users {
			b := w.buys(w, user, s.ID)
			if b.Reason != sale.OK {
				t.Fatalf("%q: %+v", user, b)
			}
			w.order(w, user, b.Receipt.Receipt)
		}
		var out strings.Builder
		if err := w.Report(w.ctx, "m", s.ID, true, &out); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != len(users)+2 {
			t.Fatalf("%d rows, %v:\n%s", len(rows), err, out.String())
		}
		for i, row := range rows {
			for _, c := range row {
				if c != "" && strings.ContainsRune("=+-@", rune(c[0])) {
					t.Errorf("row %d has the cell %q", i, c)
				}
			}
		}
	})
}

// A brokenExport fails after it has passed some orders.
type brokenExport struct {
	sale.Ledger
	orders int
}

func (l brokenExport) EachOrder(_ context.Context, _ string, row func(sale.Order) error) error {
	for range l.orders {
		if err := row(sale.Order{Reservation: sale.Reservation{ID: "r"}, State: sale.Paid, Price: 1}); err != nil {
			return err
		}
	}
	return sale.ErrUnavailable
}

// TestReportThatBreaksOff checks that a report has no totals if the ledger fails in the middle.
func TestReportThatBreaksOff(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(10))
		for orders, want := range map[int]string{1: "", 5000: "error,5000 orders,,incomplete,"} {
			broken := w.started("broken", func(c *shop.Config) { c.Ledger = brokenExport{w.ledger, orders} })
			var out strings.Builder
			if err := broken.Report(w.ctx, "m", s.ID, true, &out); !errors.Is(err, sale.ErrUnavailable) {
				t.Errorf("%d orders: %v, want unavailable", orders, err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\r\n"), "\r\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, want) || want == "" && out.Len() > 0 || strings.Contains(out.String(), "total") {
				t.Errorf("%d orders: %d bytes, the last line is %q, want %q", orders, out.Len(), last, want)
			}
			broken.Stop()
		}
	})
}
