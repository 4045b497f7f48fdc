package shop_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// An askedLedger counts the questions about single sales.
type askedLedger struct {
	sale.Ledger
	asked atomic.Int64
}

func (l *askedLedger) Sale(ctx context.Context, id string) (sale.Sale, error) {
	l.asked.Add(1)
	return l.Ledger.Sale(ctx, id)
}

// TestUnknownSales checks that who asks for names that are none cannot keep the ledger busy, and takes
// nothing from those who ask for a sale that there is.
func TestUnknownSales(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := &askedLedger{Ledger: w.ledger}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = asked })
		defer w.Shop.Stop()
		s := w.exposed(draft(5))
		before := asked.asked.Load()
		away := 0
		for i := range 1000 {
			_, err := w.View(w.ctx, fmt.Sprintf("nosuchsale%06d", i))
			switch {
			case errors.Is(err, sale.ErrUnavailable):
				away++
			case !errors.Is(err, sale.ErrNotFound):
				t.Fatalf("sale %d: %v", i, err)
			}
			if _, err := w.View(w.ctx, s.ID); err != nil {
				t.Fatalf("a sale that there is: %v", err)
			}
		}
		if n := asked.asked.Load() - before; n > 50 || away != 950 {
			t.Errorf("1000 names that are none: the ledger was asked %d times, %d were not answered; want at most 50, and 950", n, away)
		}
		<-time.After(time.Second) // of the bubble
		if _, err := w.View(w.ctx, "nosuchsale000000"); !errors.Is(err, sale.ErrNotFound) {
			t.Errorf("a second later: %v, want that there is none", err)
		}
	})
}
