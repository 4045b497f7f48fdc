package shop_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestStory checks that a sale is created, exposed, waited for, bought, paid; one order expires and
// another buys its unit; it is sold out; it ends.
func TestStory(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(2))
		if got, err := w.Join(w.ctx, "early", s.ID, ""); err != nil || got.Reason != sale.NotStarted || got.Layer != sale.L0 || got.RetryAfter < time.Second-200*time.Millisecond {
			t.Errorf("before the start: %+v, %v", got, err)
		}
		w.opens(s)
		a, b := w.buys(w, "alice", s.ID), w.buys(w, "bob", s.ID)
		if a.Reason != sale.OK || b.Reason != sale.OK {
			t.Fatalf("alice: %q, bob: %q", a.Reason, b.Reason)
		}
		w.pays("alice", a.Receipt.Receipt)
		if r := w.order(w, "bob", b.Receipt.Receipt); r.State != sale.PendingPay || r.Sale.Title != "A thing" || !r.PayBy.After(time.Now()) {
			t.Errorf("bob's order: %+v", r)
		}
		after(200 * time.Millisecond) // a view is as old as that
		v, _ := w.View(w.ctx, s.ID)
		if v.Phase != sale.AllTaken || v.Free != 0 {
			t.Errorf("view: phase %s, %d free, want all_taken, 0", v.Phase, v.Free)
		}
		c := w.buys(w, "carol", s.ID) // waits until bob's time is over
		if c.Reason != sale.OK {
			t.Fatalf("carol: %+v", c)
		}
		if r := w.order(w, "bob", b.Receipt.Receipt); r.State != sale.Expired {
			t.Errorf("bob's order is %s, want expired", r.State)
		}
		if late, err := w.Pay(w.ctx, b.Receipt.Receipt, "late", 1999); err != nil || !late.RefundDue {
			t.Errorf("bob pays late: %+v, %v", late, err)
		}
		var waits sync.WaitGroup
		waits.Go(func() {
			if d := w.buys(w, "dave", s.ID); d.Reason != sale.IsSoldOut {
				t.Errorf("dave: %+v, want sold_out", d)
			}
		})
		after(300 * time.Millisecond)
		w.pays("carol", c.Receipt.Receipt)
		waits.Wait()
		after(200 * time.Millisecond)
		if e, err := w.Join(w.ctx, "eve", s.ID, ""); err != nil || e.Reason != sale.IsSoldOut || e.RetryAfter != 0 {
			t.Errorf("eve: %+v, %v", e, err)
		}
		if tally := w.agrees(s.ID); tally.Paid != 2 || tally.Expired != 1 || tally.RefundDue != 1 {
			t.Errorf("tally %+v", tally)
		}
		orders, err := w.Orders(w.ctx, "bob")
		if err != nil || len(orders) != 1 || orders[0].Refunds != 1 || orders[0].Sale.SKU != "sku-1" {
			t.Errorf("bob's orders: %+v, %v", orders, err)
		}
		var report strings.Builder
		if err := w.Report(w.ctx, "m", s.ID, true, &report); err != nil || strings.Count(report.String(), "\r\n") != 5 || !strings.Contains(report.String(), "total,3 orders,,2 paid,3998,CNY") {
			t.Errorf("report, %v:\n%s", err, report.String())
		}
		for i, want := range []int{0, 0} {
			if r, err := w.Reconcile(w.ctx, "m", s.ID); err != nil || r.Changed != want {
				t.Errorf("reconcile %d: %+v, %v", i, r, err)
			}
		}
		if ended, err := w.End(w.ctx, "m", s.ID, false); err != nil || ended.State != sale.Ended {
			t.Errorf("end: %+v, %v", ended, err)
		}
		w.until("the inventory's state to be dropped", 5*time.Second, func() bool {
			_, err := w.engine.Counts(w.ctx, s.ID, s.Epoch)
			return err != nil
		})
		if v, err := w.View(w.ctx, s.ID); err != nil || v.Phase != sale.PhaseEnded {
			t.Errorf("view at the end: %+v, %v", v, err)
		}
		if l, err := w.List(w.ctx); err != nil || len(l) != 1 || l[0].Phase != sale.PhaseEnded {
			t.Errorf("list at the end: %+v, %v", l, err)
		}
	})
}

// TestReturnsAreBought checks that a second group of users buys all units that a first group
// does not pay.
func TestReturnsAreBought(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(30)
		d.PayWithin = 3 * time.Second
		s := w.exposed(d)
		w.opens(s)
		won := func(users int, prefix string, pay bool) (n int) {
			var mu sync.Mutex
			concurrently(users, func(user string) {
				user = prefix + user
				b := w.buys(w, user, s.ID)
				if b.Reason != sale.OK {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
				if pay {
					w.pays(user, b.Receipt.Receipt)
				}
			})
			return n
		}
		if n := won(30, "first-", false); n != 30 {
			t.Errorf("the first wave got %d units, want 30", n)
		}
		if n := won(60, "second-", true); n != 30 {
			t.Errorf("the second wave got %d units, want 30", n)
		}
		after(time.Second)
		if tally := w.agrees(s.ID); tally.Paid != 30 || tally.Expired != 30 {
			t.Errorf("tally %+v", tally)
		}
	})
}

// TestConcurrentUsers checks that of many concurrent users as many buy as there are units.
func TestConcurrentUsers(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(100))
		w.opens(s)
		var mu sync.Mutex
		reasons := map[sale.Reason]int{}
		concurrently(1000, func(user string) {
			b := w.buys(w, user, s.ID)
			mu.Lock()
			reasons[b.Reason]++
			mu.Unlock()
			if b.Reason == sale.OK {
				w.pays(user, b.Receipt.Receipt)
			}
		})
		if reasons[sale.OK] != 100 || reasons[sale.IsSoldOut]+reasons[sale.IsAllTaken] != 900 {
			t.Errorf("reasons %v, want 100 bought, 900 sold out", reasons)
		}
		if tally := w.agrees(s.ID); tally.Paid != 100 {
			t.Errorf("tally %+v", tally)
		}
		st := w.Stats()
		if st.Buys != st.Granted+st.Repeated+st.BuysRefused+st.BuyErrors || st.Granted != 100 || st.OrdersCreated != 100 {
			t.Errorf("stats %+v", st)
		}
		if st.Admitted > 300+100 {
			t.Errorf("%d admitted of a sale of 100 units with a headroom of 3", st.Admitted)
		}
	})
}
