package shop_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestClockAhead runs two shops on one inventory, one with a clock ten minutes ahead. Both
// return the time of the inventory, which opens the sale.
func TestClockAhead(t *testing.T) {
	inShop(t, func(w *world) {
		ahead := w.started("ahead", func(c *shop.Config) {
			c.Clock = func() time.Time { return time.Now().Add(10 * time.Minute) }
		})
		defer ahead.Stop()
		d := draft(3)
		d.StartsAt = time.Now().Add(30 * time.Second)
		s := w.exposed(d)
		right := func() bool { return time.Until(ahead.Now()).Abs() < 10*time.Millisecond }
		phase := func() sale.Phase {
			v, err := ahead.View(w.ctx, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			return v.Phase
		}
		w.until("the time of the Gate", 5*time.Second, right)
		if got := phase(); got != sale.Upcoming {
			t.Errorf("25 s before the start: %q", got)
		}
		w.until("the start", 30*time.Second, func() bool { return phase() == sale.Open })
		if early := time.Until(d.StartsAt); early > 0 || !right() {
			t.Errorf("open %v before the start; the time is %v off", early, time.Until(ahead.Now()))
		}
		// After the sale has finished, in every response about it.
		if _, err := w.End(w.ctx, "m", s.ID, true); err != nil {
			t.Fatal(err)
		}
		w.until("the end", 5*time.Second, func() bool { return ahead.Stats().Sales == 0 })
		list, err := ahead.List(w.ctx)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d sales, %v", len(list), err)
		}
		view, err := ahead.View(w.ctx, s.ID)
		board, err2 := ahead.Dashboard(w.ctx, "m", s.ID)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for what, now := range map[string]time.Time{"list": list[0].Now, "view": view.Now, "board": board.View.Now} {
			if off := time.Until(now); off.Abs() > 10*time.Millisecond {
				t.Errorf("%s of the ended sale: the time is %v off", what, off)
			}
		}
	})
}
