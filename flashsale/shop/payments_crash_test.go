//go:build crashpoints

package shop_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

// TestCashierDies ends the work of a cashier after each call of the provider, before the ledger
// has its result. Another cashier completes it: one payment is opened, closed and refunded once.
func TestCashierDies(t *testing.T) {
	for _, point := range []string{crashpoint.CheckoutOpened, crashpoint.CheckoutClosed, crashpoint.RefundSent} {
		for provider, with := range map[string]func(*till){"bank": withBank, "stripe": withStripe} {
			t.Run(provider+"/"+point, func(t *testing.T) {
				inTill(t, with, func(b *till) {
					b.Cashier.Stop()
					var died atomic.Bool
					b.crash = crashpoint.New(func(p string) {
						if p == point && died.CompareAndSwap(false, true) {
							runtime.Goexit()
						}
					})
					b.open()
					r := b.buys(b.world.Shop, "alice", b.sale.ID).Receipt
					in, err := b.keys.OpenReceipt(r.Receipt)
					if err != nil {
						t.Fatal(err)
					}
					b.order(b.world.Shop, "alice", r.Receipt)
					for range 2 {
						done := make(chan error, 1)
						go func() {
							defer close(done)
							_, _, err := b.Checkout(b.ctx, "alice", r.Receipt, "")
							done <- err
						}()
						if err, ok := <-done; ok && err != nil {
							t.Fatal(err)
						}
					}
					if n := b.bank.Calls("create"); provider == "stripe" && n != 1 || n > 2 {
						t.Errorf("%d payments created", n)
					}
					ref := b.bank.Ref(in.ID)
					after(30 * time.Second) // the order expires: also without the result of Close
					b.becomes("expired", "alice", r.Receipt, sale.Expired, 0, 0, time.Second)
					b.bank.Set(paytest.Faults{LatePay: true})
					if err := b.bank.Pay(ref); err != nil {
						t.Fatal(err)
					}
					b.becomes("refunded", "alice", r.Receipt, sale.Expired, 1, 1, time.Minute)
					after(2 * time.Minute)
					if _, back := b.bank.Balance(ref); back != 1999 {
						t.Errorf("%d refunded, want 1999", back)
					}
					if !died.Load() {
						t.Errorf("%s was not reached", point)
					}
					b.agrees(b.sale.ID)
				})
			})
		}
	}
}
