// Package webhooktest is the conformance suite of webhook.Store.
package webhooktest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
	"github.com/floodweir/weir/flashsale/webhook"
)

// Ledger is a ledger that stores events for webhooks.
type Ledger interface {
	sale.Ledger
	Webhooks() webhook.Store
}

// Run runs the tests of a webhook.Store. open returns an empty ledger.
func Run(t *testing.T, open func(t *testing.T) Ledger) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d *tester)
	}{
		{"EventsOfChanges", eventsOfChanges}, {"OrderOfEvents", orderOfEvents}, {"Leases", leases}, {"DeadEvents", deadEvents},
		{"Endpoints", endpoints}, {"EndedSales", endedSales}, {"OldEvents", oldEvents}, {"WorkersAtOnce", workersAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t)
			d := &tester{l, t, t.Context(), l.Webhooks()}
			d.must(l.AddMerchant(d.ctx, "shop", "hash"))
			d.must(l.AddMerchant(d.ctx, "other", "hash"))
			c.test(t, d)
		})
	}
}

type tester struct {
	sale.Ledger
	t     *testing.T
	ctx   context.Context
	store webhook.Store
}

func (d *tester) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *tester) wantError(what string, err, want error) {
	d.t.Helper()
	if !errors.Is(err, want) {
		d.t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// exposed creates a sale and exposes it.
func (d *tester) exposed(stock int64, perUser int) sale.Sale {
	d.t.Helper()
	s, err := d.Create(d.ctx, "shop", "", ledgertest.Draft(stock, perUser), at(-3600))
	d.must(err)
	s, err = d.SetState(d.ctx, "shop", s.ID, sale.Exposed, "", at(-3600), sale.Drafted)
	d.must(err)
	return s
}

// pendingOrder creates a pending order.
func (d *tester) pendingOrder(s sale.Sale, user string) sale.Reservation {
	d.t.Helper()
	r := ledgertest.Reservation(s, user, 1)
	got, err := d.CreateOrders(d.ctx, 1, []sale.Reservation{r}, at(2))
	if err != nil || !got[0].New || got[0].State != sale.PendingPay {
		d.t.Fatal(got, err)
	}
	return r
}

func (d *tester) pay(r sale.Reservation, payment string, now time.Time) {
	d.t.Helper()
	_, err := d.Pay(d.ctx, sale.Payment{ID: payment, Reservation: r.ID, Amount: 9900}, now)
	d.must(err)
}

// at returns the time n seconds after the start of the suite's sales.
func at(n int) time.Time { return ledgertest.Start().Add(time.Duration(n) * time.Second) }

func (d *tester) endpoint(merchant string) webhook.Endpoint {
	d.t.Helper()
	e, err := d.store.AddEndpoint(d.ctx, merchant, "https://shop.example/hook?"+rand.Text(), signing.New().Text(), at(-60))
	d.must(err)
	return e
}

func (d *tester) lease(e webhook.Endpoint, now time.Time) []webhook.Delivery {
	d.t.Helper()
	all, err := d.store.Lease(d.ctx, e.ID, now, now.Add(webhook.LeaseFor), 100)
	d.must(err)
	return all
}

// finish stores the state of deliveries after an attempt.
func (d *tester) finish(now time.Time, state webhook.State, due time.Time, all ...webhook.Delivery) {
	d.t.Helper()
	var rs []webhook.Result
	for _, x := range all {
		x.State, x.Due = state, due
		x.Attempts++
		rs = append(rs, webhook.Result{Delivery: x, Attempt: webhook.Attempt{At: now, Status: 200, Response: "\xff\x00ok"}})
	}
	d.must(d.store.Finish(d.ctx, now, rs))
}

// drain delivers all events that are due, and returns them.
func (d *tester) drain(e webhook.Endpoint, now time.Time) []webhook.Delivery {
	d.t.Helper()
	var all []webhook.Delivery
	for {
		some := d.lease(e, now)
		if len(some) == 0 {
			return all
		}
		d.finish(now, webhook.Delivered, now, some...)
		all = append(all, some...)
		now = now.Add(time.Second)
	}
}

func typesOf(all []webhook.Delivery, subject string) string {
	var types []string
	for _, x := range all {
		if x.Subject == subject {
			types = append(types, fmt.Sprint(x.Seq, " ", x.Type))
		}
	}
	return strings.Join(types, ", ")
}

// eventsOfChanges makes every change once: each has its event, with the new state.
func eventsOfChanges(t *testing.T, d *tester) {
	before := d.exposed(5, 1)
	d.pendingOrder(before, "early")
	e, other := d.endpoint("shop"), d.endpoint("other")
	s := d.exposed(2, 1)
	paid, cancelled, expired, lost := d.pendingOrder(s, "a"), d.pendingOrder(s, "b"), sale.Reservation{}, ledgertest.Reservation(s, "d", 1)
	d.pay(paid, "p1", at(10))
	d.pay(paid, "p1", at(10)) // repeated
	_, err := d.Cancel(d.ctx, "b", cancelled.ID, at(11))
	d.must(err)
	_, err = d.Cancel(d.ctx, "b", cancelled.ID, at(11)) // repeated
	d.must(err)
	expired = d.pendingOrder(s, "c")
	if due, err := d.Expire(d.ctx, at(3600), 10); err != nil || len(due) != 2 {
		t.Fatalf("Expire = %v, %v, want the order of c and of the sale before", due, err)
	}
	d.must(d.MarkLost(d.ctx, lost, at(20)))
	last := d.pendingOrder(s, "e")
	d.pay(last, "p2", at(30))
	_, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.ByMerchant, at(40), sale.Exposed)
	d.must(err)

	back := d.pendingOrder(d.exposed(1, 1), "f")
	_, err = d.Cancel(d.ctx, "f", back.ID, at(41))
	d.must(err)
	c := sale.Checkout{Provider: "bank", Ref: "r", Reservation: back.ID, Sale: back.Sale, Receipt: "receipt-" + back.ID, Attempt: 1,
		Amount: 9900, Currency: "CNY", URL: "https://bank.example/", State: sale.CheckoutOpen, OpenedAt: back.At, PayBy: back.PayBy}
	d.must(d.AddCheckout(d.ctx, c))
	_, err = d.RecordEvent(d.ctx, "bank", payments.Event{ID: "evt", Ref: "r", Receipt: back.ID, Kind: payments.Paid, Amount: 9900, Currency: "CNY", At: back.At}, at(42))
	d.must(err)
	refunds, err := d.LeaseRefunds(d.ctx, []string{"bank"}, at(43), at(60), 10)
	if err != nil || len(refunds) != 1 {
		t.Fatal(refunds, err)
	}
	refunds[0].State = sale.RefundDone
	d.must(d.SetRefund(d.ctx, refunds[0], at(44)))
	d.must(d.SetRefund(d.ctx, refunds[0], at(44))) // repeated

	got := d.drain(e, at(4000))
	for _, c := range []struct{ subject, want string }{
		{paid.ID, "1 order.reserved, 2 order.paid"},
		{cancelled.ID, "1 order.reserved, 2 order.cancelled"},
		{expired.ID, "1 order.reserved, 2 order.expired"},
		{lost.ID, "1 order.lost"},
		{s.ID, "1 sale.sold_out, 2 sale.ended"},
		{back.ID, "1 order.reserved, 2 order.cancelled, 3 order.refunded"},
	} {
		if types := typesOf(got, c.subject); types != c.want {
			t.Errorf("events of %s: %s, want %s", c.subject, types, c.want)
		}
	}
	for _, x := range got {
		var body struct {
			Type, Timestamp string
			Data            struct {
				Reservation, Sale, SKU, User, State, Currency, Payment string
				Price, Sold, Paid, Stock                               int64
			}
		}
		if err := json.Unmarshal([]byte(x.Body), &body); err != nil || body.Type != string(x.Type) {
			t.Errorf("body %s: %v, want one of %s", x.Body, err, x.Type)
		}
		switch b := body.Data; {
		case x.Type == webhook.OrderPaid && (b.State != "paid" || b.Payment == "" || b.Price != 9900 || b.SKU != "tea" || b.Currency != s.Currency || b.Reservation != x.Subject):
			t.Errorf("data of order.paid: %s", x.Body)
		case x.Type == webhook.SaleSoldOut && (b.Sale != s.ID || b.Stock != 2 || b.Paid != 2 || b.Sold != 2):
			t.Errorf("data of sale.sold_out: %s", x.Body)
		}
	}
	if got := d.drain(other, at(5000)); len(got) > 0 {
		t.Errorf("another merchant got %v", got)
	}
	if s := typesOf(got, before.ID); s != "" {
		t.Errorf("events from before the endpoint: %s", s)
	}
}

// orderOfEvents leases the second event of an order only after the first one is delivered.
func orderOfEvents(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	s := d.exposed(10, 1)
	r, free := d.pendingOrder(s, "a"), d.pendingOrder(s, "b")
	d.pay(r, "p1", at(3))
	first := d.lease(e, at(4))
	if got := typesOf(first, r.ID); got != "1 order.reserved" || len(first) != 2 {
		t.Fatalf("leased %s of %d, want the first event of both orders", got, len(first))
	}
	held := slices.IndexFunc(first, func(x webhook.Delivery) bool { return x.Subject == r.ID })
	d.finish(at(5), webhook.Pending, at(300), first[held])
	d.finish(at(5), webhook.Delivered, at(5), first[1-held])
	if first[1-held].Subject != free.ID {
		t.Fatal("the other event is of another order")
	}
	for n := 5; n < 299; n += 7 {
		if got := d.lease(e, at(n)); len(got) != 0 {
			t.Fatalf("after %d s leased %v, want nothing: the first event is to be sent again at 300", n, got)
		}
	}
	again := d.lease(e, at(301))
	if got := typesOf(again, r.ID); got != "1 order.reserved" || again[0].Event != first[held].Event || again[0].Attempts != 1 {
		t.Fatalf("leased %+v, want the first event again", again)
	}
	d.finish(at(302), webhook.Delivered, at(302), again...)
	if got := typesOf(d.lease(e, at(302)), r.ID); got != "2 order.paid" {
		t.Fatalf("leased %s, want the second event at once", got)
	}
	if n, err := d.store.Counts(d.ctx); err != nil || n.Pending != 1 || n.Dead != 0 || n.Oldest.IsZero() {
		t.Errorf("Counts = %+v, %v", n, err)
	}
}

// leases leases a delivery again after its lease, and ignores a late failure.
func leases(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	r := d.pendingOrder(d.exposed(1, 1), "a")
	late := d.lease(e, at(4))
	if got := d.lease(e, at(33)); len(late) != 1 || len(got) != 0 {
		t.Fatalf("leased %v and %v, want one within 30 s", late, got)
	}
	second := d.lease(e, at(35))
	if typesOf(second, r.ID) != "1 order.reserved" {
		t.Fatalf("leased %v after the lease, want the event", second)
	}
	d.finish(at(36), webhook.Dead, at(36), late...) // its lease is over
	if n, err := d.store.Counts(d.ctx); err != nil || n.Dead != 0 {
		t.Errorf("a late failure: %+v, %v, want no dead letter", n, err)
	}
	d.finish(at(37), webhook.Pending, at(40), second...)
	third := d.lease(e, at(41))
	if len(third) != 1 {
		t.Fatalf("leased %v, want the event: a late failure has no effect", third)
	}
	d.finish(at(42), webhook.Delivered, at(42), second...) // a late success has
	d.finish(at(43), webhook.Pending, at(43), third...)
	if got := d.lease(e, at(100)); len(got) != 0 {
		t.Errorf("leased %v, want nothing after a success", got)
	}
	_, attempts, err := d.store.Attempts(d.ctx, "shop", e.ID, third[0].Event)
	if err != nil || len(attempts) != 4 || attempts[0].Response != "\uFFFD\uFFFDok" {
		t.Errorf("attempts = %+v, %v, want 4", attempts, err)
	}
}

// deadEvents holds the later events of an order until the dead letter is replayed or skipped.
func deadEvents(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	s := d.exposed(2, 1)
	one, two := d.pendingOrder(s, "a"), d.pendingOrder(s, "b")
	d.finish(at(4), webhook.Dead, at(4), d.lease(e, at(4))...)
	d.pay(one, "p1", at(5))
	d.pay(two, "p2", at(5))
	sold := d.lease(e, at(6))
	if len(sold) != 1 || sold[0].Type != webhook.SaleSoldOut {
		t.Fatalf("leased %v, want sale.sold_out alone", sold)
	}
	d.finish(at(6), webhook.Delivered, at(6), sold...)
	if got := d.lease(e, at(7)); len(got) != 0 {
		t.Fatalf("leased %v, want nothing behind a dead letter", got)
	}
	dead, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{State: webhook.Dead})
	if err != nil || len(dead) != 2 {
		t.Fatalf("dead letters: %v, %v, want 2", dead, err)
	}
	if n, err := d.store.Counts(d.ctx); err != nil || n.Dead != 2 || n.Pending != 2 {
		t.Errorf("Counts = %+v, %v, want 2 dead, 2 pending", n, err)
	}
	byID := map[string]string{dead[0].Subject: dead[0].Event, dead[1].Subject: dead[1].Event}
	d.must(d.store.Skip(d.ctx, "shop", e.ID, byID[one.ID], at(8)))
	d.wantError("second Skip", d.store.Skip(d.ctx, "shop", e.ID, byID[one.ID], at(8)), sale.ErrConflict)
	if got := d.drain(e, at(8)); len(got) != 1 || typesOf(got, one.ID) != "2 order.paid" {
		t.Errorf("after Skip delivered %v, want the payment of the order", got)
	}
	d.must(d.store.Replay(d.ctx, "shop", e.ID, byID[two.ID], at(20)))
	got := d.drain(e, at(20))
	if typesOf(got, two.ID) != "1 order.reserved, 2 order.paid" || got[0].Event != byID[two.ID] || got[0].Attempts != 0 {
		t.Errorf("after Replay delivered %+v, want both events in order, with their IDs", got)
	}
	n, err := d.store.ReplaySince(d.ctx, "shop", e.ID, at(5), at(30))
	if err != nil || n != 3 {
		t.Errorf("ReplaySince = %d, %v, want 3", n, err)
	}
	if got := d.drain(e, at(30)); len(got) != 3 {
		t.Errorf("after ReplaySince delivered %v, want 3", got)
	}
	page, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{Subject: two.ID, Type: webhook.OrderPaid})
	if err != nil || len(page) != 1 || page[0].Event != got[len(got)-1].Event && page[0].Subject != two.ID {
		t.Errorf("Deliveries with a filter = %v, %v, want one", page, err)
	}
	first, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{})
	d.must(err)
	rest, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{After: first[1].Event})
	if err != nil || len(first) != 5 || len(rest) != 3 || rest[0].Event != first[2].Event {
		t.Errorf("pages of %d and %d, %v, want 5 and 3", len(first), len(rest), err)
	}
	for what, err := range map[string]error{
		"Skip":         d.store.Skip(d.ctx, "other", e.ID, byID[one.ID], at(8)),
		"Replay":       d.store.Replay(d.ctx, "other", e.ID, byID[one.ID], at(8)),
		"Replay of ''": d.store.Replay(d.ctx, "shop", e.ID, "", at(8)),
		"unknown":      d.store.Skip(d.ctx, "shop", e.ID, "evt_x\x00", at(8)),
	} {
		d.wantError(what, err, sale.ErrNotFound)
	}
}
