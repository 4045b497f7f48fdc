package shop_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

// TestMerchantRefunds checks that the money of an order that its merchant refunds goes back once,
// also if the provider repeats and delays its notifications, fails or refuses for a while.
func TestMerchantRefunds(t *testing.T) {
	for name, faults := range map[string]paytest.Faults{
		"no fault":              {},
		"duplicated":            {Duplicate: 2, Reorder: true},
		"delayed":               {Delay: 3 * time.Second},
		"errors after the work": {After: true},
		"away":                  {Down: true},
		"refused":               {Refuse: true},
	} {
		for provider, with := range map[string]func(*till){"bank": withBank, "stripe": withStripe} {
			if faults.Refuse && provider == "stripe" {
				continue // a refund that Stripe has refused stays refused: its key is used
			}
			t.Run(name+" "+provider, func(t *testing.T) {
				inTill(t, with, func(b *till) {
					receipt, ref := b.checkout("ann")
					in, err := b.keys.OpenReceipt(receipt)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := b.RefundOrder(b.ctx, "m", b.sale.ID, in.ID, "broken"); !errors.Is(err, sale.ErrConflict) && !errors.Is(err, sale.ErrNotFound) {
						t.Errorf("RefundOrder before the payment: %v, want a conflict", err)
					}
					if err := b.bank.Pay(ref); err != nil {
						t.Fatal(err)
					}
					b.becomes("it is paid", "ann", receipt, sale.Paid, 0, 0, 20*time.Second)
					b.bank.Set(faults)
					for range 2 {
						if _, err := b.RefundOrder(b.ctx, "m", b.sale.ID, in.ID, "broken"); err != nil {
							t.Fatal(err)
						}
					}
					after(3 * time.Second)
					b.bank.Set(paytest.Faults{})
					if _, err := b.ledger.RetryRefunds(b.ctx, "", b.Now()); err != nil {
						t.Fatal(err)
					}
					b.becomes("the money is back", "ann", receipt, sale.Cancelled, 1, 1, 5*time.Minute)
					b.bank.Wait()
					after(10 * time.Second)
					if paid, refunded := b.bank.Balance(ref); paid != 1999 || refunded != 1999 {
						t.Errorf("%d of %d are back", refunded, paid)
					}
					got := b.agrees(b.sale.ID)
					if got.Cancelled != 1 || got.Refunded != 1 || got.Returned != 1999 || got.Sale.Paid != 0 {
						t.Errorf("totals %+v, want one order that is refunded", got)
					}
				})
			})
		}
	}
}

// TestRefundedIsNotUnpaid checks that a buyer whose units were paid and refunded has no penalty,
// now and after a recovery.
func TestRefundedIsNotUnpaid(t *testing.T) {
	inTill(t, withBank, func(b *till) {
		for range sale.MaxUnpaid {
			receipt, ref := b.checkout("ann")
			in, err := b.keys.OpenReceipt(receipt)
			if err == nil {
				err = b.bank.Pay(ref)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.becomes("it is paid", "ann", receipt, sale.Paid, 0, 0, 20*time.Second)
			if _, err := b.RefundOrder(b.ctx, "m", b.sale.ID, in.ID, "broken"); err != nil {
				t.Fatal(err)
			}
		}
		if r := b.buys(b.world.Shop, "ann", b.sale.ID); r.Reason != sale.OK {
			t.Errorf("ann buys after %d refunds: %+v", sale.MaxUnpaid, r)
		}
		if o, err := b.ledger.InitialState(b.ctx, b.sale.ID); err != nil || len(o.Unpaid) != 0 {
			t.Errorf("InitialState: %v unpaid, %v", o.Unpaid, err)
		}
	})
}

// TestRefundInDashboard checks that a refund of a whole payment at the provider cancels the order
// and frees its unit, once. After a refund of a part the merchant can return the rest.
func TestRefundInDashboard(t *testing.T) {
	for name, c := range map[string]struct {
		faults paytest.Faults
		parts  []int64
		office bool // refunds the rest
	}{
		"the whole":           {parts: []int64{1999}},
		"duplicated":          {parts: []int64{1999}, faults: paytest.Faults{Duplicate: 2, Delay: time.Second}},
		"in two parts":        {parts: []int64{999, 1000}},
		"a part, then office": {parts: []int64{999}, office: true},
	} {
		t.Run(name, func(t *testing.T) {
			inTill(t, withStripe, func(b *till) {
				fake := b.bank.(*paytest.Stripe)
				receipt, ref := b.checkout("ann")
				in, err := b.keys.OpenReceipt(receipt)
				if err == nil {
					err = b.bank.Pay(ref)
				}
				if err != nil {
					t.Fatal(err)
				}
				b.becomes("it is paid", "ann", receipt, sale.Paid, 0, 0, 20*time.Second)
				b.bank.Set(c.faults)
				for i, part := range c.parts {
					if i > 0 {
						b.bank.Wait()
						b.becomes("a part is back", "ann", receipt, sale.Paid, 0, 0, time.Second)
					}
					if err := fake.RefundInDashboard(ref, part); err != nil {
						t.Fatal(err)
					}
				}
				b.bank.Wait()
				if c.office {
					b.becomes("a part is back", "ann", receipt, sale.Paid, 0, 0, time.Second)
					if _, err := b.RefundOrder(b.ctx, "m", b.sale.ID, in.ID, "the rest"); err != nil {
						t.Fatal(err)
					}
				}
				b.becomes("the money is back", "ann", receipt, sale.Cancelled, 1, 1, time.Minute)
				b.bank.Wait()
				after(10 * time.Second)
				if paid, refunded := b.bank.Balance(ref); paid != 1999 || refunded != 1999 {
					t.Errorf("%d of %d are back", refunded, paid)
				}
				got := b.agrees(b.sale.ID)
				if got.Cancelled != 1 || got.Refunded != 1 || got.Returned != 1999 || got.RefundFailed != 0 || got.Sale.Paid != 0 {
					t.Errorf("totals %+v, want one order that is refunded", got)
				}
				entries, err := b.AuditLog(b.ctx, "m", b.sale.ID)
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for _, e := range entries {
					if strings.HasPrefix(e.Event, "refunded order "+in.ID) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the audit log has the refund %d times, want once", n)
				}
				if r := b.buys(b.world.Shop, "bob", b.sale.ID); r.Reason != sale.OK {
					t.Errorf("bob buys the unit: %+v", r)
				}
			})
		})
	}
}
