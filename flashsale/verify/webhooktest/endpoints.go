package webhooktest

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
	"github.com/floodweir/weir/flashsale/webhook"
)

func endpoints(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	for _, url := range []string{
		"", "x", "ftp://a.example/", "https://", "https://u:p@a.example/", "http://shop.example/", "http://8.8.8.8/", "https://a.example/#f", "https://a.example/" + strings.Repeat("x", 2000),
	} {
		_, err := d.store.AddEndpoint(d.ctx, "shop", url, signing.New().Text(), at(0))
		d.wantError("AddEndpoint "+url, err, sale.ErrInvalid)
	}
	_, err := d.store.AddEndpoint(d.ctx, "shop", e.URL, signing.New().Text(), at(0))
	d.wantError("AddEndpoint with the same URL", err, sale.ErrConflict)
	_, err = d.store.AddEndpoint(d.ctx, "unknown", "https://a.example/", signing.New().Text(), at(0))
	d.wantError("AddEndpoint for an unknown merchant", err, sale.ErrNotFound)
	for range webhook.MaxEndpoints - 1 {
		d.endpoint("shop")
	}
	_, err = d.store.AddEndpoint(d.ctx, "shop", "https://a.example/", signing.New().Text(), at(0))
	d.wantError("one endpoint more than the maximum", err, sale.ErrConflict)
	d.endpoint("other")
	if all, err := d.store.Endpoints(d.ctx, "shop"); err != nil || len(all) != webhook.MaxEndpoints || len(all[0].Secrets) != 0 {
		t.Errorf("Endpoints = %v, %v", all, err)
	}
	if all, err := d.store.Endpoints(d.ctx, ""); err != nil || len(all) != webhook.MaxEndpoints+1 {
		t.Errorf("Endpoints of all = %v, %v", all, err)
	}

	s := d.exposed(5, 1)
	d.pendingOrder(s, "a")
	secrets := func(now time.Time) []string {
		t.Helper()
		due, err := d.store.DueEndpoints(d.ctx, now)
		d.must(err)
		for _, x := range due {
			if x.ID == e.ID {
				return x.Secrets
			}
		}
		return nil
	}
	next := signing.New().Text()
	d.must(d.store.RotateSecret(d.ctx, "shop", e.ID, next, at(100)))
	if got := secrets(at(99)); !slices.Equal(got, []string{next, e.Secrets[0]}) {
		t.Errorf("secrets after a rotation: %v, want the new and the old one", got)
	}
	if got := secrets(at(100)); !slices.Equal(got, []string{next}) {
		t.Errorf("secrets at the end of the rotation: %v, want the new one", got)
	}
	if got := secrets(at(-100)); got != nil {
		t.Errorf("due before the event: %v", got)
	}
	// A 410 disables the endpoint: it gets no event, until it is enabled.
	gone := d.lease(e, at(5))
	if len(gone) != 1 {
		t.Fatalf("leased %v", gone)
	}
	d.must(d.store.Finish(d.ctx, at(5), []webhook.Result{{Delivery: gone[0], Attempt: webhook.Attempt{At: at(5), Status: 410}, Gone: true}}))
	d.pendingOrder(s, "b")
	if got := secrets(at(1000)); got != nil {
		t.Errorf("a disabled endpoint is due: %v", got)
	}
	all, err := d.store.Endpoints(d.ctx, "shop")
	d.must(err)
	if i := slices.IndexFunc(all, func(x webhook.Endpoint) bool { return x.ID == e.ID }); all[i].Disabled != webhook.Gone || all[i].Pending != 1 {
		t.Errorf("a disabled endpoint: %+v", all[i])
	}
	d.must(d.store.SetDisabled(d.ctx, "shop", e.ID, ""))
	if got := d.drain(e, at(1000)); len(got) != 1 || got[0].Event != gone[0].Event {
		t.Errorf("after enabling delivered %v, want the event of before", got)
	}
	for what, f := range map[string]func(merchant, id string) error{
		"RotateSecret":   func(m, id string) error { return d.store.RotateSecret(d.ctx, m, id, next, at(0)) },
		"SetDisabled":    func(m, id string) error { return d.store.SetDisabled(d.ctx, m, id, webhook.ByMerchant) },
		"RemoveEndpoint": func(m, id string) error { return d.store.RemoveEndpoint(d.ctx, m, id) },
	} {
		d.wantError(what, f("other", e.ID), sale.ErrNotFound)
		d.wantError(what, f("shop", "ep_\x00"), sale.ErrNotFound)
	}
	d.must(d.store.RemoveEndpoint(d.ctx, "shop", e.ID))
	d.wantError("second RemoveEndpoint", d.store.RemoveEndpoint(d.ctx, "shop", e.ID), sale.ErrNotFound)
	d.must(d.store.Finish(d.ctx, at(6), []webhook.Result{{Delivery: gone[0], Attempt: webhook.Attempt{At: at(6)}}})) // its attempt was in progress
}

// endedSales stores sale.ended once, by time or by the merchant.
func endedSales(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	s, early := d.exposed(1, 1), d.exposed(1, 1)
	_, err := d.SetState(d.ctx, "shop", early.ID, sale.Ended, sale.Killed, at(10), sale.Exposed)
	d.must(err)
	d.must(d.store.Sweep(d.ctx, s.EndsAt.Add(-time.Millisecond), at(-1e6)))
	if got := d.drain(e, at(20)); len(got) != 1 || got[0].Subject != early.ID {
		t.Fatalf("before the end delivered %v, want the end of the other sale", got)
	}
	for range 2 {
		d.must(d.store.Sweep(d.ctx, s.EndsAt, at(-1e6)))
	}
	_, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.ByMerchant, s.EndsAt.Add(time.Minute), sale.Exposed)
	d.must(err)
	if got := d.drain(e, s.EndsAt.Add(time.Hour)); typesOf(got, s.ID) != "1 sale.ended" || len(got) != 1 {
		t.Errorf("delivered %v, want sale.ended once", got)
	}
}

// oldEvents removes events of before a time, but not those that are open.
func oldEvents(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	s := d.exposed(2, 1)
	d.pendingOrder(s, "a")
	d.drain(e, at(5))
	open := d.pendingOrder(s, "b")
	d.must(d.store.Sweep(d.ctx, at(10), at(10)))
	all, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{})
	if err != nil || len(all) != 1 || all[0].Subject != open.ID {
		t.Errorf("deliveries %v, %v, want the open one", all, err)
	}
	day := 24 * time.Hour
	d.must(d.store.Sweep(d.ctx, at(10), at(10).Add(61*day)))
	if all, err := d.store.Deliveries(d.ctx, "shop", e.ID, webhook.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("deliveries %v, %v, want none after 90 days", all, err)
	}
}

// workersAtOnce leases with several workers while orders change: each delivery has one lease,
// and the events of an order are leased in order.
func workersAtOnce(t *testing.T, d *tester) {
	e := d.endpoint("shop")
	s := d.exposed(200, 1)
	rs := make([]sale.Reservation, 200)
	for i := range rs {
		rs[i] = ledgertest.Reservation(s, rand.Text(), 1)
	}
	var done sync.WaitGroup
	var mu sync.Mutex
	last, count := map[string]int64{}, 0
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	for range 4 {
		done.Go(func() {
			pause := time.NewTicker(5 * time.Millisecond) // a worker that never waits uses a CPU
			defer pause.Stop()
			for n := 10; ctx.Err() == nil; n++ { // a held event is due again a second later
				some, err := d.store.Lease(d.ctx, e.ID, at(n), at(1e9), 16)
				if err != nil {
					t.Errorf("Lease: %v", err)
					return
				}
				mu.Lock()
				for _, x := range some {
					if last[x.Subject]+1 != x.Seq {
						t.Errorf("order %s: event %d after %d", x.Subject, x.Seq, last[x.Subject])
					}
					last[x.Subject] = x.Seq
				}
				if count += len(some); count == 2*len(rs)+1 { // and sale.sold_out
					cancel()
				}
				mu.Unlock()
				if len(some) == 0 {
					<-pause.C
					continue
				}
				var results []webhook.Result
				for _, x := range some {
					x.State = webhook.Delivered
					results = append(results, webhook.Result{Delivery: x, Attempt: webhook.Attempt{At: at(10), Status: 200}})
				}
				if err := d.store.Finish(d.ctx, at(10), results); err != nil {
					t.Errorf("Finish: %v", err)
					return
				}
			}
		})
	}
	for b := range slices.Chunk(rs, 50) {
		if _, err := d.CreateOrders(d.ctx, 1, b, at(2)); err != nil {
			t.Errorf("CreateOrders: %v", err)
		}
		for _, r := range b {
			if _, err := d.Pay(d.ctx, sale.Payment{ID: rand.Text(), Reservation: r.ID, Amount: 9900}, at(3)); err != nil {
				t.Errorf("Pay: %v", err)
			}
		}
	}
	done.Wait()
	if n, err := d.store.Counts(d.ctx); err != nil || n.Pending != 0 || count != 2*len(rs)+1 {
		t.Errorf("%d leases, %+v, %v, want %d and none pending", count, n, err, 2*len(rs)+1)
	}
}
