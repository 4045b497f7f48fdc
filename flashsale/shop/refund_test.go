package shop_test

import (
	"errors"
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
