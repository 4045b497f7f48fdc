package shop_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// curves counts the calls of a sale.Curves, and can fail.
type curves struct {
	sale.Curves
	calls atomic.Int64
	fails atomic.Bool
	after bool // it fails although the samples are stored
}

func (c *curves) AddSamples(ctx context.Context, process string, samples []sale.CurveSample) error {
	c.calls.Add(1)
	fails := c.fails.Load()
	if fails && !c.after {
		return errors.New("no ledger")
	}
	err := c.Curves.AddSamples(ctx, process, samples)
	if fails {
		return errors.Join(err, errors.New("no response"))
	}
	return err
}

func (w *world) withCurves(c sale.Curves) func(*shop.Config) {
	return func(config *shop.Config) { config.Curves = c }
}

// curves returns the points of a sale as each of the shops shows them, and wants them to be equal.
func (w *world) curves(id string, shops ...*shop.Shop) []sale.CurvePoint {
	w.Helper()
	var first []sale.CurvePoint
	for i, s := range shops {
		board, err := s.Dashboard(w.ctx, "m", id)
		if err != nil {
			w.Fatal(err)
		}
		if i == 0 {
			first = board.Curves
		} else if !slices.Equal(first, board.Curves) {
			w.Errorf("process %d shows\n%+v, process 0\n%+v", i, board.Curves, first)
		}
	}
	return first
}

// wantLast checks the last point, without its time.
func (w *world) wantLast(points []sale.CurvePoint, want sale.CurvePoint) {
	w.Helper()
	if len(points) == 0 {
		w.Fatalf("no points, want %+v", want)
	}
	got := points[len(points)-1]
	got.At = time.Time{}
	if got != want {
		w.Errorf("the last point is %+v, want %+v", got, want)
	}
}

// TestCurves runs a sale in two processes. Both show the same curves, which continue after both
// have restarted, whatever the state of the inventory.
func TestCurves(t *testing.T) {
	inWorld(t, func(w *world) {
		store := &curves{Curves: w.ledger.Curves()}
		a, b := w.started("a", w.withCurves(store)), w.started("b", w.withCurves(store))
		w.Shop = a
		d := draft(3)
		d.PayWithin = time.Hour
		s := w.exposed(d)
		w.opens(s)
		after(sale.CurveStep)
		var receipts []string
		for i, user := range []string{"alice", "bob", "cat"} {
			receipts = append(receipts, w.buys([]*shop.Shop{a, b}[i%2], user, s.ID).Receipt.Receipt)
			after(2 * sale.CurveStep)
		}
		for _, user := range []string{"dan", "eve"} { // no unit is left
			if q, err := b.Join(w.ctx, user, s.ID, ""); err != nil || q.State != sale.Waiting {
				t.Fatalf("%s: %+v, %v", user, q, err)
			}
		}
		after(sale.CurveStep)
		points := w.curves(s.ID, a, b)
		w.wantLast(points, sale.CurvePoint{Admitted: 3, Reserved: 3, Waiting: 2})
		free := make([]int64, len(points))
		for i, p := range points {
			free[i] = p.Free
		}
		if free = slices.Compact(free); !slices.Equal(free, []int64{3, 2, 1, 0}) {
			t.Errorf("free units are %d, want 3, 2, 1, 0", free)
		}

		// Dan and Eve leave. Alice pays while no process reads the counts of the sale.
		after(time.Minute)
		w.wantLast(w.curves(s.ID, a, b), sale.CurvePoint{Admitted: 3, Reserved: 3})
		w.pays("alice", receipts[0])
		after(2 * sale.CurveStep)
		before := w.curves(s.ID, a, b)
		w.wantLast(before, sale.CurvePoint{Admitted: 3, Reserved: 3, Paid: 1})

		// Nothing happens for an hour: no point, and no call.
		calls := store.calls.Load()
		after(10 * time.Minute)
		if n := store.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls while nothing changed", n)
		}
		if got := w.curves(s.ID, a, b); !slices.Equal(got, before) {
			t.Errorf("points\n%+v, want\n%+v", got, before)
		}

		// A restart adds nothing, and the curves continue.
		a.Stop()
		b.Stop()
		w.newEngine()
		a, b = w.started("a2", w.withCurves(store)), w.started("b2", w.withCurves(store))
		defer a.Stop()
		defer b.Stop()
		w.Shop = a
		after(2 * sale.CurveStep)
		if got := w.curves(s.ID, a, b); !slices.Equal(got, before) {
			t.Errorf("after the restart, points\n%+v, want\n%+v", got, before)
		}
		w.pays("bob", receipts[1])
		after(2 * sale.CurveStep)
		points = w.curves(s.ID, a, b)
		w.wantLast(points, sale.CurvePoint{Admitted: 3, Reserved: 3, Paid: 2})
		if len(points) <= len(before) || !slices.Equal(points[:len(before)], before) {
			t.Errorf("points\n%+v do not continue\n%+v", points, before)
		}

		// The last figures of a sale that ends are written, though it is not live any more.
		if _, err := w.Cancel(w.ctx, "cat", receipts[2]); err != nil {
			t.Fatal(err)
		}
		if _, err := w.End(w.ctx, "m", s.ID, false); err != nil {
			t.Fatal(err)
		}
		after(3 * sale.CurveStep)
		w.wantLast(w.curves(s.ID, a, b), sale.CurvePoint{Admitted: 3, Reserved: 3, Paid: 2, Free: 1})
		ended := len(w.curves(s.ID, a, b))
		after(10 * time.Minute)
		if n := len(w.curves(s.ID, a, b)); n != ended {
			t.Errorf("%d points ten minutes after the end, want %d", n, ended)
		}
	})
}

// TestCurvesLater checks that admissions are counted once while the ledger is unavailable, or gives
// no response after it has stored them, and that Stop writes those that are left.
func TestCurvesLater(t *testing.T) {
	for name, stored := range map[string]bool{"not stored": false, "stored": true} {
		t.Run(name, func(t *testing.T) { curvesLater(t, stored) })
	}
}

func curvesLater(t *testing.T, stored bool) {
	inWorld(t, func(w *world) {
		store := &curves{Curves: w.ledger.Curves(), after: stored}
		w.Shop = w.started("a", w.withCurves(store))
		d := draft(5)
		d.TokenFor, d.Queue = time.Minute, sale.Direct
		s := w.exposed(d)
		w.opens(s)
		store.fails.Store(true)
		for i, user := range []string{"alice", "bob", "cat"} {
			if got := w.admitted(w, user, s.ID); got.State != sale.Admitted {
				t.Fatalf("%s: %+v", user, got)
			}
			if i < 2 {
				after(2 * sale.CurveStep)
			}
		}
		store.fails.Store(false)
		if n := store.calls.Load(); n < 3 {
			t.Errorf("%d calls, want a retry each step", n)
		}
		w.Shop.Stop()
		points, err := store.Points(w.ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.wantLast(points, sale.CurvePoint{Admitted: 3, Free: 5})
	})
}

// TestCurvesCountTicketOnce admits a ticket by a poll, after which it reserves a unit by a click.
func TestCurvesCountTicketOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Shop = w.started("a", w.withCurves(w.ledger.Curves()))
		defer w.Shop.Stop()
		d := draft(5)
		d.TokenFor = time.Minute
		s := w.exposed(d)
		w.opens(s)
		turn := w.admitted(w, "alice", s.ID)
		if got, err := w.Shop.Click(w.ctx, "alice", s.ID, turn.Ticket, ""); err != nil || !got.Bought {
			t.Fatalf("Click = %+v, %v", got, err)
		}
		if got, err := w.Shop.Click(w.ctx, "bob", s.ID, "", ""); err != nil || !got.Bought {
			t.Fatalf("Click without a turn = %+v, %v", got, err)
		}
		w.admitted(w, "cat", s.ID)
		after(2 * sale.CurveStep)
		w.wantLast(w.curves(s.ID, w.Shop), sale.CurvePoint{Admitted: 3, Reserved: 2, Free: 3})
	})
}

// TestCurvesOfManySales checks that idle sales cost no calls to the inventory and none to the
// ledger.
func TestCurvesOfManySales(t *testing.T) {
	inWorld(t, func(w *world) {
		g, store := &counted{Inventory: w.engine}, &curves{Curves: w.ledger.Curves()}
		w.gate = g
		w.Shop = w.started("a", w.withCurves(store))
		defer w.Shop.Stop()
		w.manyExposed()
		after(2 * sale.CurveStep)
		calls, samples := g.calls.Load(), store.calls.Load()
		after(time.Minute)
		if n := g.calls.Load() - calls; n > 30 {
			t.Errorf("%d calls to the inventory in a minute, want at most 30", n)
		}
		if n := store.calls.Load() - samples; n != 0 {
			t.Errorf("%d writes of 50 idle sales, want none", n)
		}
	})
}
