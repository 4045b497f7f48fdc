package shop_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/cashier"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/stripe"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

// A till is a cashier over a world, and its bank.
type till struct {
	*world
	*cashier.Cashier
	bank  bank
	with  payments.Payments
	sale  sale.Sale
	crash crashpoint.Hook
}

// A bank is a fake provider as its buyers see it.
type bank interface {
	Set(paytest.Faults)
	Pay(ref string) error
	Ref(receipt string) string
	Balance(ref string) (paid, refunded int64)
	Calls(method string) int
	Wait()
}

// A handlerTransport calls a handler without a network, which a bubble cannot have.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// withBank makes the bank in memory.
func withBank(b *till) {
	p := &paytest.Bank{URL: "https://bank.example"}
	p.Send = func(e payments.Event) error {
		_, err := b.ledger.RecordEvent(b.ctx, cashier.Default, e, b.Now())
		return err
	}
	b.bank, b.with = p, p
}

// withStripe makes the adapter of Stripe, with a fake of it that signs with the older of two secrets.
func withStripe(b *till) {
	fake := &paytest.Stripe{Key: "sk_test_1", Secrets: []string{"whsec_old"}}
	fake.Send = func(signature string, body []byte) int {
		for _, forged := range []string{paytest.Signature(time.Now(), body, "whsec_other"), paytest.Signature(time.Now().Add(-301*time.Second), body, "whsec_old"), ""} {
			r := httptest.NewRequest("POST", "/", nil)
			r.Header.Set("Stripe-Signature", forged)
			if reply := b.Notify(cashier.Default, r, body); reply.Status != http.StatusForbidden {
				b.Errorf("signature %q: status %d, want 403", forged, reply.Status)
			}
		}
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Stripe-Signature", signature)
		return b.Notify(cashier.Default, r, body).Status
	}
	p, err := stripe.New(stripe.Config{Key: "sk_test_1", Secrets: func() []string { return []string{"whsec_new", "whsec_old"} }, Page: "https://shop.example/pay",
		Client: &http.Client{Transport: handlerTransport{fake}}})
	if err != nil {
		b.Fatal(err)
	}
	b.bank, b.with = fake, p
}

// inTill runs f with a cashier and a sale of 5 units that has started, to be paid in 10 s.
func inTill(t *testing.T, with func(*till), f func(*till)) {
	t.Helper()
	inShop(t, func(w *world) {
		b := &till{world: w}
		with(b)
		b.open()
		defer func() { b.Cashier.Stop(); b.bank.Wait() }()
		b.sale = w.exposed(draft(5))
		w.opens(b.sale)
		f(b)
	})
}

// open starts a cashier, after the death of the one before.
func (b *till) open() {
	b.Helper()
	k, err := cashier.New(cashier.Config{Ledger: b.ledger, Shop: b.world.Shop, Keys: b.keys, Providers: map[string]payments.Payments{cashier.Default: b.with},
		Applied: b.world.Shop.PaymentApplied, Crash: b.crash, Log: b.log})
	if err != nil {
		b.Fatal(err)
	}
	k.Start()
	b.Cashier = k
}

// checkout buys a unit and opens its payment.
func (b *till) checkout(user string) (receipt, ref string) {
	b.Helper()
	r := b.buys(b.world.Shop, user, b.sale.ID).Receipt
	if _, _, err := b.Checkout(b.ctx, user, r.Receipt, ""); err != nil {
		b.Fatal(err)
	}
	in, err := b.keys.OpenReceipt(r.Receipt)
	if err != nil {
		b.Fatal(err)
	}
	return r.Receipt, b.bank.Ref(in.ID)
}

// becomes waits until an order has a state and refunds.
func (b *till) becomes(what, user, receipt string, state sale.OrderState, refunds, refunded int, within time.Duration) {
	b.Helper()
	b.until(what, within, func() bool {
		r, err := b.world.Order(b.ctx, user, receipt)
		return err == nil && r.State == state && r.Refunds == refunds && r.Refunded == refunded
	})
}

// TestMoney checks what becomes of money, with the faults of a bank.
func TestMoney(t *testing.T) {
	for name, c := range map[string]struct {
		faults   paytest.Faults
		wait     time.Duration // before the buyer pays
		notPaid  bool
		state    sale.OrderState
		refunds  int
		within   time.Duration
		refunded int64 // at the bank
	}{
		"in time":                 {state: sale.Paid, within: 5 * time.Second},
		"delayed":                 {faults: paytest.Faults{Delay: 5 * time.Second}, state: sale.Paid, within: 7 * time.Second},
		"duplicated":              {faults: paytest.Faults{Duplicate: 3}, state: sale.Paid, within: 5 * time.Second},
		"reordered":               {faults: paytest.Faults{Reorder: true, Duplicate: 1}, state: sale.Paid, within: 5 * time.Second},
		"lost":                    {faults: paytest.Faults{Lose: true}, state: sale.Paid, within: 12 * time.Second},
		"delayed beyond the time": {faults: paytest.Faults{Delay: 14 * time.Second}, state: sale.Paid, within: 12 * time.Second},
		"another amount":          {faults: paytest.Faults{WrongAmount: -1}, state: sale.Expired, refunds: 1, within: 12 * time.Second, refunded: 1998},
		"not paid":                {notPaid: true, state: sale.Expired, within: 11500 * time.Millisecond},
		"paid after it is closed": {faults: paytest.Faults{LatePay: true}, wait: 12 * time.Second, state: sale.Expired, refunds: 1, within: 5 * time.Second, refunded: 1999},
		"errors after the work":   {faults: paytest.Faults{After: true, LatePay: true}, wait: 27 * time.Second, state: sale.Expired, refunds: 1, within: 30 * time.Second, refunded: 1999},
	} {
		for provider, with := range map[string]func(*till){"bank": withBank, "stripe": withStripe} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				inTill(t, with, func(b *till) {
					receipt, ref := b.checkout("alice")
					b.order(b.world.Shop, "alice", receipt)
					b.bank.Set(c.faults)
					after(c.wait)
					if !c.notPaid {
						if err := b.bank.Pay(ref); err != nil {
							t.Fatal(err)
						}
					}
					if c.faults.After {
						after(3 * time.Second)
						b.bank.Set(paytest.Faults{})
					}
					b.becomes(name, "alice", receipt, c.state, c.refunds, c.refunds, c.within)
					after(time.Minute)
					b.becomes(name+", still", "alice", receipt, c.state, c.refunds, c.refunds, time.Millisecond)
					if _, back := b.bank.Balance(ref); back != c.refunded {
						t.Errorf("%d refunded at the bank, want %d", back, c.refunded)
					}
					tally := b.agrees(b.sale.ID)
					if tally.RefundDue != 0 || tally.RefundFailed != 0 || tally.Refunded != int64(c.refunds) {
						t.Errorf("tally %+v", tally)
					}
				})
			})
		}
	}
}

// TestReturned checks that a payment whose notification is lost is found soon after the buyer is back.
// Repeated reports do not cause many questions to the provider.
func TestReturned(t *testing.T) {
	for provider, with := range map[string]func(*till){"bank": withBank, "stripe": withStripe} {
		t.Run(provider, func(t *testing.T) {
			inTill(t, with, func(b *till) {
				receipt, ref := b.checkout("alice")
				b.order(b.world.Shop, "alice", receipt)
				back := func() {
					t.Helper()
					if err := b.Returned(b.ctx, "alice", receipt); err != nil {
						t.Fatal(err)
					}
				}
				for range 30 { // 3 s
					back()
					after(100 * time.Millisecond)
				}
				if n := b.Cashier.Stats().Settled; n < 1 || n > 3 {
					t.Errorf("the provider was asked %d times in 3 s, want 1 to 3", n)
				}
				b.bank.Set(paytest.Faults{Lose: true})
				if err := b.bank.Pay(ref); err != nil {
					t.Fatal(err)
				}
				back()
				b.becomes("paid", "alice", receipt, sale.Paid, 0, 0, 2*time.Second)
				back()
				if err := b.Returned(b.ctx, "bob", receipt); !errors.Is(err, sale.ErrNotFound) {
					t.Errorf("another buyer is back: %v", err)
				}
			})
		})
	}
}

// TestMoneyOfSeveralUnits checks that an order of three units has one payment of three prices, and
// one refund. The price of one unit does not pay it.
func TestMoneyOfSeveralUnits(t *testing.T) {
	for provider, with := range map[string]func(*till){"bank": withBank, "stripe": withStripe} {
		t.Run(provider, func(t *testing.T) {
			inTill(t, with, func(b *till) {
				d := draft(9)
				d.SKU, d.PerUser, d.MaxQuantity = "sku-3", 3, 3
				b.sale = b.exposed(d)
				b.opens(b.sale)
				checkout := func(user string) (receipt, ref string) {
					at, err := b.Quantity(3).Click(b.ctx, user, b.sale.ID, "", "k")
					if err != nil || !at.Bought {
						t.Fatalf("Click for 3 units = %+v, %v", at, err)
					}
					receipt = at.Reserved[0].Receipt
					b.order(b.world.Shop, user, receipt)
					if _, _, err := b.Checkout(b.ctx, user, receipt, ""); err != nil {
						t.Fatal(err)
					}
					in, err := b.keys.OpenReceipt(receipt)
					if err != nil {
						t.Fatal(err)
					}
					return receipt, b.bank.Ref(in.ID)
				}
				money := func(what, ref string, paid, back int64) {
					t.Helper()
					if p, r := b.bank.Balance(ref); p != paid || r != back {
						t.Errorf("%s: %d paid and %d refunded at the provider, want %d and %d", what, p, r, paid, back)
					}
				}
				receipt, ref := checkout("alice")
				if err := b.bank.Pay(ref); err != nil {
					t.Fatal(err)
				}
				b.becomes("paid", "alice", receipt, sale.Paid, 0, 0, 5*time.Second)
				money("paid", ref, 3*1999, 0)
				in, err := b.keys.OpenReceipt(receipt)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.RefundOrder(b.ctx, "m", b.sale.ID, in.ID, "asked for it"); err != nil {
					t.Fatal(err)
				}
				b.becomes("refunded", "alice", receipt, sale.Cancelled, 1, 1, 5*time.Second)
				money("refunded", ref, 3*1999, 3*1999)

				b.bank.Set(paytest.Faults{WrongAmount: -2 * 1999})
				receipt, ref = checkout("bob")
				if err := b.bank.Pay(ref); err != nil {
					t.Fatal(err)
				}
				b.becomes("the price of one unit", "bob", receipt, sale.Expired, 1, 1, 12*time.Second)
				money("the price of one unit", ref, 1999, 1999)
				b.agrees(b.sale.ID)
			})
		})
	}
}

// TestBankIsAway checks that an order whose bank gives no answer at its deadline is kept 15 s.
// Money that comes later is returned. A refused refund is a dead letter and can be tried again.
func TestBankIsAway(t *testing.T) {
	inTill(t, withBank, func(b *till) {
		receipt, ref := b.checkout("alice")
		b.order(b.world.Shop, "alice", receipt)
		b.bank.Set(paytest.Faults{Lose: true})
		if err := b.bank.Pay(ref); err != nil {
			t.Fatal(err)
		}
		b.bank.Set(paytest.Faults{Down: true})
		in, _ := b.keys.OpenReceipt(receipt)
		after(time.Until(in.PayBy) + sale.CloseGrace - time.Second)
		b.becomes("kept", "alice", receipt, sale.PendingPay, 0, 0, time.Millisecond)
		b.becomes("expired", "alice", receipt, sale.Expired, 0, 0, 3*time.Second)
		b.bank.Set(paytest.Faults{})
		b.becomes("refunded", "alice", receipt, sale.Expired, 1, 1, time.Minute)

		receipt, ref = b.checkout("bob")
		b.order(b.world.Shop, "bob", receipt)
		before := b.bank.Calls("close")
		if _, err := b.world.Cancel(b.ctx, "bob", receipt); err != nil {
			t.Fatal(err)
		}
		b.until("the payment to be closed", 3*time.Second, func() bool { return b.bank.Calls("close") > before })
		b.bank.Set(paytest.Faults{LatePay: true, Refuse: true})
		if err := b.bank.Pay(ref); err != nil {
			t.Fatal(err)
		}
		b.until("the dead letter", 5*time.Second, func() bool {
			tally, err := b.ledger.Totals(b.ctx, b.sale.ID)
			return err == nil && tally.RefundFailed == 1
		})
		b.bank.Set(paytest.Faults{})
		if n, err := b.ledger.RetryRefunds(b.ctx, "", b.Now()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		b.becomes("refunded", "bob", receipt, sale.Cancelled, 1, 1, 5*time.Second)
		if _, back := b.bank.Balance(ref); back != 1999 {
			t.Errorf("%d refunded, want 1999 once", back)
		}
	})
}

// TestMoneyBeforeTheOrder checks that money for a reservation that is not written yet pays it when
// it is.
func TestMoneyBeforeTheOrder(t *testing.T) {
	inTill(t, withBank, func(b *till) {
		r := b.buys(b.world.Shop, "alice", b.sale.ID).Receipt // the order is written some ms later
		if _, page, err := b.Checkout(b.ctx, "alice", r.Receipt, ""); err != nil || page == "" {
			t.Fatal(page, err)
		}
		in, _ := b.keys.OpenReceipt(r.Receipt)
		if err := b.bank.Pay("bank_" + in.ID + "_1"); err != nil {
			t.Fatal(err)
		}
		b.becomes("paid", "alice", r.Receipt, sale.Paid, 0, 0, 2*time.Second)
		b.agrees(b.sale.ID)
	})
}

// TestCheckout checks what a buyer gets who wants to pay.
func TestCheckout(t *testing.T) {
	inTill(t, withBank, func(b *till) {
		receipt, ref := b.checkout("alice")
		_, first, err := b.Checkout(b.ctx, "alice", receipt, "")
		_, again, err2 := b.Checkout(b.ctx, "alice", receipt, "")
		if err != nil || err2 != nil || first != again || first != "https://bank.example/pay/"+ref || b.bank.Calls("create") != 1 {
			t.Errorf("%q, %v, again %q, %v, %d calls", first, err, again, err2, b.bank.Calls("create"))
		}
		if _, _, err := b.Checkout(b.ctx, "mallory", receipt, ""); !errors.Is(err, sale.ErrNotFound) {
			t.Errorf("another user: %v, want not found", err)
		}
		if err := b.with.Close(b.ctx, ref); err != nil { // for example after a failed attempt
			t.Fatal(err)
		}
		in, _ := b.keys.OpenReceipt(receipt)
		if _, err := b.ledger.RecordEvent(b.ctx, cashier.Default, payments.Event{Ref: ref, Receipt: in.ID, Kind: payments.Closed}, b.Now()); err != nil {
			t.Fatal(err)
		}
		_, second, err := b.Checkout(b.ctx, "alice", receipt, "")
		if err != nil || second != "https://bank.example/pay/bank_"+in.ID+"_2" {
			t.Errorf("after the first is closed: %q, %v", second, err)
		}
		b.order(b.world.Shop, "alice", receipt)
		if err := b.bank.Pay("bank_" + in.ID + "_2"); err != nil {
			t.Fatal(err)
		}
		b.becomes("paid", "alice", receipt, sale.Paid, 0, 0, 5*time.Second)
		if r, page, err := b.Checkout(b.ctx, "alice", receipt, ""); err != nil || page != "" || r.State != sale.Paid {
			t.Errorf("after it is paid: %+v, %q, %v", r, page, err)
		}

		b.bank.Set(paytest.Faults{Down: true})
		r := b.buys(b.world.Shop, "bob", b.sale.ID).Receipt
		if _, _, err := b.Checkout(b.ctx, "bob", r.Receipt, ""); !errors.Is(err, sale.ErrUnavailable) {
			t.Errorf("the bank is down: %v", err)
		}
		b.bank.Set(paytest.Faults{After: true})
		if _, _, err := b.Checkout(b.ctx, "bob", r.Receipt, ""); !errors.Is(err, sale.ErrUnavailable) {
			t.Errorf("an error after the work: %v", err)
		}
		b.bank.Set(paytest.Faults{})
		if _, page, err := b.Checkout(b.ctx, "bob", r.Receipt, ""); err != nil || page == "" {
			t.Errorf("%q, %v", page, err)
		}
		after(12 * time.Second)
		if _, _, err := b.Checkout(b.ctx, "bob", r.Receipt, ""); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("after the deadline: %v, want a conflict", err)
		}
	})
}

// TestFree checks that an order of price 0 needs no provider, and that any other does.
func TestFree(t *testing.T) {
	inShop(t, func(w *world) {
		k, err := cashier.New(cashier.Config{Ledger: w.ledger, Shop: w.Shop, Keys: w.keys, Log: w.log})
		if err != nil {
			t.Fatal(err)
		}
		d := draft(2)
		priced := w.exposed(d)
		d.Price = 0
		free := w.exposed(d)
		w.opens(free)
		r := w.buys(w, "alice", free.ID).Receipt.Receipt
		w.order(w, "alice", r)
		if got, page, err := k.Checkout(context.Background(), "alice", r, ""); err != nil || page != "" || got.State != sale.Paid {
			t.Errorf("free: %+v, %q, %v", got, page, err)
		}
		r = w.buys(w, "alice", priced.ID).Receipt.Receipt
		w.order(w, "alice", r)
		if _, _, err := k.Checkout(context.Background(), "alice", r, ""); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("without a provider: %v, want a conflict", err)
		}
	})
}
