package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Race pays orders while other goroutines expire them, within 5 ms of their deadlines. Each of
// the pairs orders is paid or expired, never both, and a late payment is a refund. Half of the
// payments are repeated up to a second later.
func Race(t *testing.T, l sale.Ledger, pairs int) {
	d := newTester(t, l)
	s := d.exposed(int64(pairs), 1)
	done := 0
	var paid, late atomic.Int64
	for done < pairs {
		n := min(200, pairs-done)
		rs := batch(s, n)
		placed, err := d.CreateOrders(d.ctx, 1, rs, Start())
		d.must(err)
		for _, p := range placed {
			if p != fresh {
				t.Fatalf("CreateOrders = %+v", p)
			}
		}
		base := rs[0].PayBy
		concurrently(10, func(i int) {
			r := rand.New(rand.NewPCG(uint64(done), uint64(i)))
			if i < 2 { // these expire orders, from before the deadline to after it
				for step := -5; step <= 5; step++ {
					_, err := d.Expire(d.ctx, base.Add(time.Duration(step)*time.Millisecond), n/40+1)
					if err != nil {
						t.Errorf("Expire: %v", err)
					}
				}
				return
			}
			for j := i - 2; j < n; j += 8 {
				payOne(t, d, rs[j], base.Add(time.Duration(r.IntN(11)-5)*time.Millisecond), &paid, &late)
			}
		})
		for more := true; more; {
			got, err := d.Expire(d.ctx, base.Add(time.Second), 1000)
			d.must(err)
			more = len(got) > 0
		}
		for i := range rs[:n/2] { // a repeated payment changes nothing
			payOne(t, d, rs[i], base.Add(time.Second), new(atomic.Int64), new(atomic.Int64))
		}
		done += n
	}
	got := d.check(s)
	if got.Paid != paid.Load() || got.RefundDue != late.Load() || got.Paid+got.Expired != int64(pairs) || got.Pending != 0 || got.Paid+got.RefundDue != int64(pairs) {
		t.Fatalf("%+v, counted %d paid and %d refunds", got, paid.Load(), late.Load())
	}
	if got.Paid == 0 || got.Expired == 0 {
		t.Fatalf("%+v: no concurrent payments and expiries", got)
	}
	d.must(d.EachOrder(context.WithoutCancel(d.ctx), s.ID, func(o sale.Order) error {
		if o.State == sale.Paid && o.Refunds != 0 || o.State == sale.Expired && (o.Refunds != 1 || o.Payment != "") {
			return fmt.Errorf("order %+v: paid and expired", o)
		}
		return nil
	}))
	t.Logf("%d pairs: %d paid, %d expired and refunds due", pairs, got.Paid, got.Expired)
}

// payOne pays at now, and fails unless only a payment in time is accepted.
func payOne(t *testing.T, d *tester, r sale.Reservation, now time.Time, paid, late *atomic.Int64) {
	p, err := d.Pay(d.ctx, sale.Payment{ID: "pay-" + r.ID, Reservation: r.ID, Amount: 9900}, now)
	switch {
	case err != nil:
		t.Errorf("Pay: %v", err)
	case p.RefundDue:
		late.Add(1)
	default:
		paid.Add(1)
		if !p.Repeated && now.After(r.PayBy) {
			t.Errorf("paid at %v, after %v", now, r.PayBy)
		}
	}
}
