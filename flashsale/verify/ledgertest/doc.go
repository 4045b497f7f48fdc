// Package ledgertest is the conformance suite of sale.Ledger. It checks the numbered rules, the
// methods, and concurrent calls. Package random compares with a model.
//
//	func TestLedger(t *testing.T) {
//		ledgertest.Run(t, func(t *testing.T) sale.Ledger { … })
//	}
package ledgertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Run runs the suite except Race. open returns an empty ledger that is closed when t ends.
func Run(t *testing.T, open func(t *testing.T) sale.Ledger) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *tester)
	}{
		{"rule 1: sold is between 0 and stock", rule1},
		{"rule 2: movements add up", rule2},
		{"rule 3: one order per reservation, ticket and slot", rule3},
		{"rule 3: the units of an order", orderUnits},
		{"rule 4: states change once", rule4},
		{"rule 5: a payment is accepted once", rule5},
		{"rule 6: the contact of an order", rule6},
		{"rule 7: orders of the epoch alone", rule7},
		{"rule 8: money that a provider reports", rule8},
		{"RecordEvent before CreateOrders", waitingEvents},
		{"RecordEvent of payments that were not opened here", unmatchedOrders},
		{"RecordEvent of unknown reservations", unmatchedReservations},
		{"RecordEvent before AddCheckout", unmatchedLater},
		{"LeaseCheckouts and Expire", openCheckouts},
		{"LeaseRefunds and SetRefund", refunds},
		{"payment keys", paymentKeys},
		{"Create and Edit", createAndEdit},
		{"Edit of a sale that buyers see", editExposed},
		{"Copy", copies},
		{"invalid text", invalidTexts},
		{"Sales and Live", sales},
		{"SetState", states},
		{"AddStock", stock},
		{"NextEpoch and MarkRecovered", recovery},
		{"InitialState", opening},
		{"CreateOrders, partly rejected", placePartly},
		{"CreateOrders, invalid", placeInvalid},
		{"CreateOrders, several sales", placeSeveral},
		{"Order, Orders and EachOrder", lists},
		{"RecentOrders", recent},
		{"Cancel", cancel},
		{"RefundBy", refundBy},
		{"RefundBy without money to send", refundNothing},
		{"Expire", expire},
		{"Unreturned and MarkReturned", returned},
		{"Unreturned of several sales", unreturnedFairly},
		{"RecordNetworks and Networks", networks},
		{"MarkLost", lost},
		{"AddDeadLetter", deadLetters},
		{"audit log and merchants", logs},
		{"Accounts", accounts},
		{"Accounts, invalid", accountsInvalid},
		{"actors of the audit log", actors},
		{"concurrent: CreateOrders", placeAtOnce},
		{"concurrent: everything", everythingAtOnce},
		{"concurrent: NextEpoch", epochAtOnce},
		{"concurrent: CreateOrders and NextEpoch", fenceAtOnce},
		{"concurrent: CreateOrders and MarkLost", loseAtOnce},
		{"concurrent: one payment", payAtOnce},
		{"concurrent: owners that demote each other", demoteAtOnce},
		{"concurrent: events of payments", eventsAtOnce},
		{"concurrent: contacts and payment", contactAtOnce},
		{"concurrent: RefundBy and events of payments", refundAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newTester(t, open(t))) })
	}
}

// Start returns the start of the suite's sales.
func Start() time.Time { return time.Date(2031, 5, 1, 10, 0, 0, 0, time.UTC) }

// A tester wraps a ledger under test.
type tester struct {
	sale.Ledger
	t   *testing.T
	ctx context.Context
}

func newTester(t *testing.T, l sale.Ledger) *tester { return &tester{l, t, t.Context()} }

// must fails the test unless err is nil.
func (d *tester) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// wantError fails the test unless err wraps want.
func (d *tester) wantError(what string, err, want error) {
	d.t.Helper()
	if !errors.Is(err, want) {
		d.t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// Draft returns a draft of a sale of stock units, perUser for each user.
func Draft(stock int64, perUser int) sale.Draft {
	return sale.Draft{
		SKU: "tea", Title: "龙井", Price: 9900, Stock: stock, PerUser: perUser,
		StartsAt: Start(), EndsAt: Start().Add(time.Hour), PayWithin: time.Minute,
	}
}

// exposed creates a sale and exposes it.
func (d *tester) exposed(stock int64, perUser int) sale.Sale {
	d.t.Helper()
	s, err := d.Create(d.ctx, "shop", "", Draft(stock, perUser), Start().Add(-time.Hour))
	d.must(err)
	s, err = d.SetState(d.ctx, "shop", s.ID, sale.Exposed, "", Start().Add(-time.Hour), sale.Drafted)
	d.must(err)
	return s
}

func id() string { return rand.Text() }

// Reservation returns a reservation of a user's slot, with a ticket of its own.
func Reservation(s sale.Sale, user string, slot int) sale.Reservation {
	at := Start().Add(time.Second)
	return sale.Reservation{
		ID: id(), Sale: s.ID, Epoch: max(s.Epoch, 1), User: user, Slot: slot, Ticket: id(), Key: "k", At: at, PayBy: at.Add(s.PayWithin), Quantity: 1,
	}
}

// batch returns reservations of n users, one each.
func batch(s sale.Sale, n int) []sale.Reservation {
	rs := make([]sale.Reservation, n)
	for i := range rs {
		rs[i] = Reservation(s, fmt.Sprintf("u%d-%s", i, id()), 1)
	}
	return rs
}

// place creates orders and fails the test unless the results are want.
func (d *tester) place(rs []sale.Reservation, want ...sale.OrderResult) {
	d.t.Helper()
	d.placeAt(1, rs, want...)
}

// placeAt is place for the stream of an epoch.
func (d *tester) placeAt(epoch int64, rs []sale.Reservation, want ...sale.OrderResult) {
	d.t.Helper()
	got, err := d.CreateOrders(d.ctx, epoch, rs, Start().Add(2*time.Second))
	d.must(err)
	if len(got) != len(want) {
		d.t.Fatalf("CreateOrders: %d results, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			d.t.Fatalf("CreateOrders: reservation %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// pendingOrder creates a pending order.
func (d *tester) pendingOrder(s sale.Sale, user string) sale.Reservation {
	d.t.Helper()
	r := Reservation(s, user, 1)
	d.place([]sale.Reservation{r}, fresh)
	return r
}

var (
	fresh    = sale.OrderResult{State: sale.PendingPay, New: true}
	again    = sale.OrderResult{State: sale.PendingPay}
	rejected = sale.OrderResult{State: sale.Rejected, New: true}
	refused  = sale.OrderResult{State: sale.Rejected}
	noUnit   = sale.OrderResult{State: sale.Reserved}
	fenced   = sale.OrderResult{State: sale.Reserved, Fenced: true}
)

func (d *tester) pay(r sale.Reservation, payment string, now time.Time) sale.PayResult {
	d.t.Helper()
	p, err := d.Pay(d.ctx, sale.Payment{ID: payment, Reservation: r.ID, Amount: 9900}, now)
	d.must(err)
	return p
}

// check fails the test unless the totals of a sale are consistent (rules 1 and 2), and returns
// them.
func (d *tester) check(s sale.Sale) sale.OrderTotals {
	d.t.Helper()
	t, err := d.Totals(d.ctx, s.ID)
	d.must(err)
	if err := Agrees(t); err != nil {
		d.t.Fatal(err)
	}
	return t
}

// Agrees returns an error if totals break rule 1 or 2.
func Agrees(t sale.OrderTotals) error {
	s := t.Sale
	if s.Sold != t.PendingUnits+t.PaidUnits || s.Paid != t.PaidUnits || s.Sold < 0 || s.Sold > s.Stock || t.Movements != s.Stock-s.Sold {
		return fmt.Errorf("got stock %d, sold %d, paid %d; %d units of orders are pending, %d paid, movements add up to %d",
			s.Stock, s.Sold, s.Paid, t.PendingUnits, t.PaidUnits, t.Movements)
	}
	return nil
}
