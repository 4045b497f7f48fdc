package flashsale_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/load"
)

// TestAuditEmbedded audits a sale in one process, over its own connection to the same file.
func TestAuditEmbedded(t *testing.T) {
	t.Parallel()
	c := run.Config{Data: t.TempDir()}
	audited(t, c, auditor.Config{Database: database(c)}, nil)
}

// TestAuditReal audits a sale over Redis and PostgreSQL whose Redis is flushed under load. Then
// it changes the inventory while no shop runs, and the auditor must report it.
func TestAuditReal(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	shop := sharedConfig(t, newDatabase(t, &postgres), "redis://"+redis.Addr)
	c := auditor.Config{Database: shop.Database, Redis: redisClient(t, shop.Redis)}
	s := audited(t, shop, c, func() { redis.Do(t, "FLUSHALL") })

	redis.Do(t, "HINCRBY", "fs:{"+s+"}:state", "free", 1)
	a := openAuditor(t, c)
	r, err := a.Final(t.Context(), auditor.Facts{Failed: true})
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Findings[auditor.InventoryMatchesLedger]; f.Violations == 0 && len(r.Errors) == 0 {
		t.Errorf("a unit added to the inventory was not reported in %d checks: %q", f.Checks, f.Examples)
	}
}

// audited runs a sale with all misuse of the load generator, pauses it and adds units. A second
// group of users buys what the first did not pay. In the middle, fails makes the inventory lose
// its state, if it is set. audited returns the sale.
func audited(t *testing.T, c run.Config, ac auditor.Config, fails func()) string {
	t.Helper()
	ctx := t.Context()
	c.Mock, c.Shop, c.Office, c.TrustedProxies = true, "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	sys, err := run.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sys.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}()
	now := time.Now()
	s := expose(t, sys.Merchants, "m", sale.Draft{SKU: "sku", Title: "title", Price: 100, Stock: 100, StartsAt: now.Add(1500 * time.Millisecond).Truncate(time.Millisecond),
		EndsAt: now.Add(time.Hour).Truncate(time.Millisecond), Headroom: 3, PayWithin: 3 * time.Second, TokenFor: 2 * time.Second})
	a := openAuditor(t, ac)
	sampling, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { a.Watch(sampling) })

	var seen bytes.Buffer
	runUsers := func(prefix string, profile load.Profile, users, pay int) {
		r, err := load.Run(ctx, load.Config{URL: sys.ShopURL, Sale: s.ID, Profile: profile, Users: users, Prefix: prefix, Connections: 32, At: s.StartsAt,
			Pay: pay, AllTaken: true, MaxPoll: 200 * time.Millisecond, Addresses: users, Duration: 3 * time.Minute, Lossy: fails != nil, Observations: &seen})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Faults) > 0 {
			t.Errorf("incorrect responses: %v", r.Faults)
		}
		t.Logf("%s %d users: %d requests, bought %d, paid %d, sold out %d, gave up %d, active %d, %d lost; %s", profile, users, r.Requests, r.Bought, r.Paid, r.SoldOut, r.GaveUp, r.Active, r.Lost, r.Took.Round(time.Millisecond))
		if r.Active > 0 {
			t.Errorf("%d users of %q have no final response", r.Active, prefix)
		}
	}
	beside.Go(func() {
		meddle := func(after time.Duration, what string, f func() error) {
			until(ctx, s.StartsAt.Add(after))
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		m := sys.Merchants
		meddle(60*time.Millisecond, "pause", func() error { _, err := m.Pause(ctx, "m", s.ID); return err })
		meddle(500*time.Millisecond, "resume", func() error { _, err := m.Resume(ctx, "m", s.ID); return err })
		meddle(600*time.Millisecond, "stock", func() error { _, err := m.AddStock(ctx, "m", s.ID, "more", 20); return err })
		if fails != nil {
			meddle(900*time.Millisecond, "fail", func() error { fails(); return nil })
		}
	})
	runUsers("a", load.Mixed, 200, 90)
	runUsers("b", load.Open, 200, 100)
	redistest.Await(t, "a recovery", func() (err error) { // the users may be faster
		if s, err = sys.Merchants.Sale(ctx, "m", s.ID); err == nil && fails != nil && s.Epoch < 2 {
			err = fmt.Errorf("the sale is at epoch %d", s.Epoch)
		}
		return err
	})
	// A unit that a buyer of the first group left unpaid may be free for the last of the second.
	until(ctx, time.Now().Add(s.PayWithin+2*time.Second))
	stop()
	beside.Wait()

	observations, err := calllog.Read(&seen)
	if err != nil {
		t.Fatal(err)
	}
	report, err := a.Final(ctx, auditor.Facts{Observations: observations, Complete: true, Settled: true, Failed: fails != nil,
		Demand: map[string]int64{s.ID: 120},
		Reconcile: func(ctx context.Context, id string) (int, error) {
			r, err := sys.Merchants.Reconcile(ctx, "m", id)
			return r.Changed, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d observations\n%s", len(observations), table(report))
	if report.Violations() > 0 {
		t.Errorf("%d violations", report.Violations())
	}
	for _, name := range auditor.Invariants() {
		if report.Findings[name].Checks == 0 {
			t.Errorf("%s: no check", name)
		}
	}
	return s.ID
}
