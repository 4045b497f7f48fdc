package auditor_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/inventorystate"
	"github.com/floodweir/weir/memstore"
)

// actors are the parts of a scenario: the real ones, or faulty ones.
type actors struct {
	inventory func(sale.Inventory) sale.Inventory
	ledger    func(sale.Ledger, execSQL) sale.Ledger
	service   func(sale.BuyerService) sale.BuyerService
	identity  func(session, header string) string // returns the user that a call is attributed to
	prepare   []string                            // statements that run before the sale is created
	buyers    int                                 // 30 if 0
	units     int64                               // 6 if 0
	early     bool                                // call the inventory before the start, without the shop
}

// execSQL changes the database without the ledger.
type execSQL func(statement string, args ...any)

// A scenario is a sale in one process: inventory, ledger, shop and buyers, some of whom
// misbehave.
type scenario struct {
	*testing.T
	path      string
	raw       *sql.DB // without the ledger's constraints
	inventory sale.Inventory
	ledger    sale.Ledger
	shop      *shop.Shop
	service   sale.BuyerService
	actors    actors
	sale      sale.Sale

	mu     sync.Mutex
	seen   []calllog.Call
	tokens map[string]string // issued tokens, by user
}

func newScenario(t *testing.T, c actors) *scenario {
	t.Helper()
	if c.buyers == 0 {
		c.buyers = 30
	}
	if c.units == 0 {
		c.units = 6
	}
	s := &scenario{T: t, path: filepath.Join(t.TempDir(), "sale.db"), actors: c, tokens: map[string]string{}}
	ctx := context.Background()
	l, err := ledger.Open(ctx, "sqlite:"+s.path, ledger.Config{})
	s.must(err)
	s.raw = unguarded(t, s.path)
	for _, statement := range c.prepare {
		s.exec(statement)
	}
	journal, err := l.Journal()
	s.must(err)
	e, err := meminventory.New(meminventory.Config{Journal: journal})
	s.must(err)
	s.inventory, s.ledger = e, l
	if c.inventory != nil {
		s.inventory = c.inventory(e)
	}
	if c.ledger != nil {
		s.ledger = c.ledger(l, s.exec)
	}
	keys, err := pass.NewKeys(bytes.Repeat([]byte{1}, 32))
	s.must(err)
	limits, err := memstore.New(memstore.Config{})
	s.must(err)
	s.shop, err = shop.New(shop.Config{Inventory: s.inventory, Ledger: s.ledger, Limits: limits, Keys: keys, Worker: "a"})
	s.must(err)
	s.service = s.shop
	if c.service != nil {
		s.service = c.service(s.shop)
	}
	now := time.Now()
	created, err := l.Create(ctx, "m", "", sale.Draft{SKU: "sku", Title: "title", Price: 100, Stock: c.units, StartsAt: now.Add(time.Second).Truncate(time.Millisecond),
		EndsAt: now.Add(10 * time.Minute).Truncate(time.Millisecond), Headroom: 1, PayWithin: 3 * time.Second, TokenFor: 2 * time.Second}, now)
	s.must(err)
	s.must(s.shop.Start(ctx))
	s.sale, err = s.shop.Expose(ctx, "m", created.ID)
	s.must(err)
	t.Cleanup(func() {
		s.shop.Stop()
		e.Stop()
		s.must(errors.Join(l.Close(), limits.Close()))
	})
	return s
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// unguarded opens a database without its constraints.
func unguarded(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// exec changes the database without the ledger.
func (s *scenario) exec(statement string, args ...any) {
	s.Helper()
	if _, err := s.raw.Exec(statement, args...); err != nil {
		s.Errorf("%s: %v", statement, err)
	}
}

func (s *scenario) record(o calllog.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, o)
	if o.Token != "" && o.Status < 300 && o.Action != calllog.Buy {
		s.tokens[o.User] = o.Token
	}
}

// buyerTimeout is the time after which a buyer stops polling.
const buyerTimeout = 40 * time.Second

// run lets all buyers buy, and audits the sale.
func (s *scenario) run() *auditor.Report {
	s.Helper()
	ctx := context.Background()
	watcher, err := auditor.Open(ctx, auditor.Config{Database: s.path, Inventory: s.count, StableWithin: time.Second})
	s.must(err)
	defer watcher.Close()
	sampling, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watcher.Watch(sampling) })

	for i := 6; i < 10; i++ {
		s.buyer(i).join(ctx, calllog.Early)
	}
	if s.actors.early {
		s.reserveEarly(ctx)
	}
	wait(ctx, time.Until(s.sale.StartsAt))
	var all sync.WaitGroup
	for i := range s.actors.buyers {
		b := s.buyer(i)
		b.join(ctx, calllog.Valid) // one after the other, so that the order of arrival is certain
		all.Go(func() { b.shop(ctx) })
		wait(ctx, 2*time.Millisecond)
	}
	all.Wait()
	wait(ctx, 5*time.Second)
	stop()
	watching.Wait()

	id := s.sale.ID
	r, err := watcher.Final(ctx, auditor.Facts{
		Observations: s.seen, Complete: true, Settled: true, Demand: map[string]int64{id: int64(s.actors.buyers) - 1}, Batch: 1, Workers: 2,
		Reconcile: func(ctx context.Context, id string) (int, error) {
			r, err := s.shop.Reconcile(ctx, "m", id)
			return r.Changed, err
		},
	})
	s.must(err)
	if len(r.Errors) > 0 {
		s.Logf("not checked: %q", r.Errors)
	}
	return r
}

// reserveEarly calls the inventory before the start, as a shop with a wrong clock would.
func (s *scenario) reserveEarly(ctx context.Context) {
	id := s.sale.ID
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); wait(ctx, 50*time.Millisecond) {
		if _, err := s.inventory.Counts(ctx, id, 1); err != nil {
			continue // not open yet
		}
		j := sale.JoinRequest{Sale: id, Epoch: 1, User: "user-early", Ticket: "ticket-of-user-early"}
		if _, err := s.inventory.Join(ctx, j); err != nil {
			s.Error(err)
		}
		sent := time.Now()
		got, err := s.inventory.Reserve(ctx, sale.ReserveRequest{Sale: id, Epoch: 1, User: j.User, Ticket: j.Ticket, Reservation: "reservation-of-user-early"})
		o := calllog.Call{Sent: sent, At: time.Now(), User: j.User, Sale: id, Action: calllog.Buy, Status: status(got.Reason, err), Layer: string(sale.LS), Reason: string(got.Reason)}
		if o.Status == 200 {
			o.Status, o.Layer, o.Receipt, o.Granted = 202, "", got.Reservation.ID, got.Reservation.At
		}
		s.record(o)
		return
	}
	s.Error("the inventory did not open")
}

func (s *scenario) count(ctx context.Context, id string, epoch int64) (inventorystate.State, error) {
	c, err := s.inventory.Counts(ctx, id, epoch)
	return inventorystate.State{Epoch: epoch, Stock: c.Stock, Free: c.Free, Outstanding: c.Outstanding, Backlog: c.Backlog}, err
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// status returns the HTTP status of a refusal.
func status(why sale.Reason, err error) int {
	switch why {
	case sale.OK:
		switch {
		case errors.Is(err, sale.ErrInvalid):
			return 400
		case errors.Is(err, sale.ErrNotFound):
			return 404
		case errors.Is(err, sale.ErrConflict):
			return 409
		case err != nil:
			return 503
		}
		return 200
	case sale.NotStarted:
		return 425
	case sale.HasEnded, sale.IsSoldOut:
		return 410
	case sale.IsAllTaken, sale.PerUserLimit:
		return 409
	case sale.NotAdmitted, sale.AdmissionExpired, sale.BadToken:
		return 403
	case sale.IsPaused:
		return 503
	}
	return 429
}

// receiptBody returns a digest that stands for the response body.
func receiptBody(r sale.Receipt) string {
	return calllog.Digest(fmt.Append(nil, r.Receipt, r.State, r.At.UnixMilli(), r.PayBy.UnixMilli(), r.Refunds))
}
