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
	"github.com/floodweir/weir/memstore"
)

// A cast is who plays in a theatre: the real parts, or some that are not as they should be.
type cast struct {
	gate     func(sale.Inventory) sale.Inventory
	ledger   func(sale.Ledger, beside) sale.Ledger
	desk     func(sale.BuyerService) sale.BuyerService
	identity func(session, header string) string // whom a call is believed to be of
	prepare  []string                            // statements before the ledger is opened for the sale
	buyers   int                                 // 30 if 0
	units    int64                               // 6 if 0
	early    bool                                // the inventory is called before the start, past the shop
}

// beside changes the database behind the ledger's back.
type beside func(statement string, args ...any)

// A theatre is a whole sale in one process: an engine over a ledger in a file, a shop, and
// buyers, some of whom behave badly.
type theatre struct {
	*testing.T
	path   string
	raw    *sql.DB // beside the ledger, and without its guards
	gate   sale.Inventory
	ledger sale.Ledger
	shop   *shop.Shop
	desk   sale.BuyerService
	cast   cast
	sale   sale.Sale

	mu     sync.Mutex
	seen   []auditor.Observation
	tokens map[string]string // that were given, by user
}

func stage(t *testing.T, c cast) *theatre {
	t.Helper()
	if c.buyers == 0 {
		c.buyers = 30
	}
	if c.units == 0 {
		c.units = 6
	}
	th := &theatre{T: t, path: filepath.Join(t.TempDir(), "sale.db"), cast: c, tokens: map[string]string{}}
	ctx := context.Background()
	l, err := ledger.Open(ctx, "sqlite:"+th.path, ledger.Config{})
	th.must(err)
	th.raw = unguarded(t, th.path)
	for _, s := range c.prepare {
		th.exec(s)
	}
	journal, err := l.Journal()
	th.must(err)
	e, err := meminventory.New(meminventory.Config{Journal: journal})
	th.must(err)
	th.gate, th.ledger = e, l
	if c.gate != nil {
		th.gate = c.gate(e)
	}
	if c.ledger != nil {
		th.ledger = c.ledger(l, th.exec)
	}
	keys, err := pass.NewKeys(bytes.Repeat([]byte{1}, 32))
	th.must(err)
	limits, err := memstore.New(memstore.Config{})
	th.must(err)
	th.shop, err = shop.New(shop.Config{Inventory: th.gate, Ledger: th.ledger, Limits: limits, Keys: keys, Worker: "a"})
	th.must(err)
	th.desk = th.shop
	if c.desk != nil {
		th.desk = c.desk(th.shop)
	}
	now := time.Now()
	s, err := l.Create(ctx, "m", sale.Draft{SKU: "sku", Title: "title", Price: 100, Stock: c.units, StartsAt: now.Add(time.Second).Truncate(time.Millisecond),
		EndsAt: now.Add(10 * time.Minute).Truncate(time.Millisecond), Headroom: 1, PayWithin: 3 * time.Second, TokenFor: 2 * time.Second}, now)
	th.must(err)
	th.must(th.shop.Start(ctx))
	th.sale, err = th.shop.Expose(ctx, "m", s.ID)
	th.must(err)
	t.Cleanup(func() {
		th.shop.Stop()
		e.Stop()
		th.must(errors.Join(l.Close(), limits.Close()))
	})
	return th
}

func (th *theatre) must(err error) {
	th.Helper()
	if err != nil {
		th.Fatal(err)
	}
}

// unguarded opens a database without its checks.
func unguarded(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// exec changes the database behind the ledger's back.
func (th *theatre) exec(statement string, args ...any) {
	th.Helper()
	if _, err := th.raw.Exec(statement, args...); err != nil {
		th.Errorf("%s: %v", statement, err)
	}
}

func (th *theatre) note(o auditor.Observation) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.seen = append(th.seen, o)
	if o.Token != "" && o.Status < 300 && o.Action != auditor.Buy {
		th.tokens[o.User] = o.Token
	}
}

// patience is how long a buyer asks before giving up.
const patience = 40 * time.Second

// play lets everybody buy, and the auditor judge.
func (th *theatre) play() *auditor.Report {
	th.Helper()
	ctx := context.Background()
	watcher, err := auditor.Open(ctx, auditor.Config{Database: th.path, Gate: th.count, Rest: time.Second})
	th.must(err)
	defer watcher.Close()
	sampling, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watcher.Watch(sampling) })

	for i := 6; i < 10; i++ {
		th.buyer(i).join(ctx, auditor.Early)
	}
	if th.cast.early {
		th.ask(ctx)
	}
	wait(ctx, time.Until(th.sale.StartsAt))
	var all sync.WaitGroup
	for i := range th.cast.buyers {
		b := th.buyer(i)
		b.join(ctx, auditor.Honest) // one after the other, so that who came first is certain
		all.Go(func() { b.shop(ctx) })
		wait(ctx, 2*time.Millisecond)
	}
	all.Wait()
	wait(ctx, 5*time.Second)
	stop()
	watching.Wait()

	id := th.sale.ID
	r, err := watcher.Final(ctx, auditor.Facts{
		Observations: th.seen, Complete: true, Settled: true, Demand: map[string]int64{id: int64(th.cast.buyers) - 1}, Batch: 1, Workers: 2,
		Reconcile: func(ctx context.Context, id string) (int, error) {
			r, err := th.shop.Reconcile(ctx, "m", id)
			return r.Changed, err
		},
	})
	th.must(err)
	if len(r.Errors) > 0 {
		th.Logf("not looked at: %q", r.Errors)
	}
	return r
}

// ask asks the inventory for everything before the start, as a shop whose clock is wrong would.
func (th *theatre) ask(ctx context.Context) {
	id := th.sale.ID
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); wait(ctx, 50*time.Millisecond) {
		c, err := th.gate.Counts(ctx, id, 1)
		if err != nil {
			continue // it is not open yet
		}
		j := sale.JoinRequest{Sale: id, Epoch: 1, User: "user-early", Ticket: "ticket-of-user-early"}
		if _, err := th.gate.Join(ctx, j); err != nil {
			th.Error(err)
		}
		if _, err := th.gate.Admit(ctx, id, 1, "early", 1, c.Now.Add(2*time.Second)); err != nil {
			th.Error(err)
		}
		sent := time.Now()
		got, err := th.gate.Reserve(ctx, sale.ReserveRequest{Sale: id, Epoch: 1, User: j.User, Ticket: j.Ticket, Reservation: "reservation-of-user-early"})
		o := auditor.Observation{Sent: sent, At: time.Now(), User: j.User, Sale: id, Action: auditor.Buy, Status: status(got.Reason, err), Layer: string(sale.LS), Reason: string(got.Reason)}
		if o.Status == 200 {
			o.Status, o.Layer, o.Receipt, o.Granted = 202, "", got.Reservation.ID, got.Reservation.At
		}
		th.note(o)
		return
	}
	th.Error("the gate did not open")
}

func (th *theatre) count(ctx context.Context, id string, epoch int64) (auditor.GateState, error) {
	c, err := th.gate.Counts(ctx, id, epoch)
	return auditor.GateState{Epoch: epoch, Stock: c.Stock, Free: c.Free, Outstanding: c.Outstanding, Backlog: c.Backlog}, err
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// status is the status of HTTP that a refusal has.
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

// receiptBody stands for the body of an answer.
func receiptBody(r sale.Receipt) string {
	return auditor.Digest(fmt.Append(nil, r.Receipt, r.State, r.At.UnixMilli(), r.PayBy.UnixMilli(), r.Refunds))
}
