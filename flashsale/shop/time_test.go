package shop_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestClockAhead: of two shops of one Gate, one's clock is ten minutes ahead. Both tell the
// time of the Gate, which is the one that opens the sale and ends it.
func TestClockAhead(t *testing.T) {
	inShop(t, func(w *world) {
		ahead := w.started("ahead", func(c *shop.Config) {
			c.Clock = func() time.Time { return time.Now().Add(10 * time.Minute) }
		})
		defer ahead.Stop()
		d := draft(3)
		d.StartsAt = time.Now().Add(30 * time.Second)
		s := w.exposed(d)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if off := ahead.Now().Sub(time.Now()).Abs(); off > 10*time.Millisecond {
			t.Errorf("the time of the shop whose clock is ahead is %v off", off)
		}
		for _, at := range []struct {
			after time.Duration
			want  sale.Phase
		}{{0, sale.Upcoming}, {30 * time.Second, sale.Open}} {
			time.Sleep(at.after)
			v, err := ahead.View(w.ctx, s.ID)
			if err != nil || v.Phase != at.want || v.Now.Sub(ahead.Now()).Abs() > 10*time.Millisecond {
				t.Errorf("%v later: phase %q at %v, %v; the time is %v; want %q", at.after, v.Phase, v.Now, err, ahead.Now(), at.want)
			}
		}
	})
}
