package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/coalesce"
	"github.com/floodweir/weir/flashsale/ledger/internal/curves"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	"github.com/floodweir/weir/flashsale/ledger/internal/products"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// Config configures a Ledger. The zero value works.
type Config struct {
	// Crash is called at the crash points of the ledger.
	Crash crashpoint.Hook

	// NoMigrate makes Open refuse a database with an older schema. Otherwise Open migrates it.
	NoMigrate bool

	// Conns is the maximum number of connections: 8 if 0. With SQLite these read, and one more
	// writes.
	Conns int

	// Timeout bounds every transaction: 10 s if 0. A longer one is rolled back, and its error
	// wraps sale.ErrUnavailable.
	Timeout time.Duration

	// Mock is the prefix of the payments of a mock provider, whose refunds are done at once; none
	// if empty.
	Mock string
}

// Ledger implements sale.Ledger in a database. It is safe for concurrent use.
type Ledger struct {
	sales
	orders
	payments
	checkouts
	records

	db *database.DB
}

var _ sale.Ledger = (*Ledger)(nil)

// Open opens the ledger at dsn and migrates its schema. dsn is "postgres://…" (or
// "postgresql://…"), or "sqlite:PATH", whose file is created for its owner alone. The data of
// "sqlite::memory:" is lost on Close.
func Open(ctx context.Context, dsn string, c Config) (*Ledger, error) {
	if c.Conns < 0 || c.Conns > 1000 {
		return nil, fmt.Errorf("ledger: Conns: got %d, want 0 to 1000", c.Conns)
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("ledger: Timeout: got %v, want 0 or more", c.Timeout)
	}
	c.Conns, c.Timeout = cmp.Or(c.Conns, 8), cmp.Or(c.Timeout, 10*time.Second)
	db, err := database.Open(ctx, dsn, database.Config{NoMigrate: c.NoMigrate, Conns: c.Conns, Timeout: c.Timeout})
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Ledger{db: db, sales: sales{db}, records: records{db}}
	l.orders = orders{db: db, crash: c.Crash, mock: mock(c.Mock)}
	l.orders.reads = coalesce.Queue[string, sale.Order]{MaxCalls: maxOrderReads, MaxBatch: maxOrderBatch, Wait: batchWait, Gather: gatherFor, Run: l.orders.readBatch}
	l.payments = payments{db: db, crash: c.Crash, mock: mock(c.Mock)}
	l.payments.batches = coalesce.Queue[charge, sale.PayResult]{MaxCalls: 1, MaxBatch: maxPayBatch, Gather: gatherFor, Loaded: gatherLoaded, Keys: charge.keys, Run: l.payments.payBatch}
	l.checkouts = checkouts{db: db, crash: c.Crash}
	l.checkouts.events = coalesce.Queue[report, sale.EventResult]{MaxCalls: 1, MaxBatch: maxPayBatch, Gather: gatherFor, Loaded: gatherLoaded, Keys: report.keys, Run: l.checkouts.recordBatch}
	if db.IsPostgres() {
		l.payments.batches.MaxCalls, l.payments.batches.Wait = min(2, c.Conns), batchWait
		l.checkouts.events.MaxCalls, l.checkouts.events.Wait = min(2, c.Conns), batchWait
	}
	return l, nil
}

// mock is the prefix of the payments of a mock provider, or empty.
type mock string

// took reports whether the mock provider took a payment.
func (m mock) took(payment string) bool { return m != "" && strings.HasPrefix(payment, string(m)) }

// Ping implements sale.Ledger.
func (l *Ledger) Ping(ctx context.Context) error {
	return fail("ping", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		var one int
		return x.Row("SELECT 1").Scan(&one)
	}))
}

// Webhooks returns the events of the ledger and the endpoints that receive them.
func (l *Ledger) Webhooks() webhook.Store { return outbox.Store{DB: l.db} }

// Products returns what the sales of the ledger show of their products.
func (l *Ledger) Products() catalogue.Store { return products.Store{DB: l.db} }

// Curves returns the figures of the sales over time.
func (l *Ledger) Curves() sale.Curves { return curves.Store{DB: l.db} }

// Close closes the connections, after the statements in progress.
func (l *Ledger) Close() error { return fail("close", l.db.Close()) }

// fail adds the operation to an error.
func fail(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: %s: %w", operation, err)
}
