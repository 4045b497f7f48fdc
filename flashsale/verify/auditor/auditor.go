package auditor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A Config says what to audit.
type Config struct {
	// Database is where the orders are: a URL of PostgreSQL (postgres://…), or the path or
	// file: URL of a SQLite database. Required.
	Database string

	// Redis is where the gates are; nil if they are in the shop's process.
	Redis rueidis.Client

	// Prefix begins the keys of the gates in Redis; "fs:" if empty.
	Prefix string

	// Inventory tells of an inventory that is not in Redis; nil if nobody can.
	Gate func(ctx context.Context, sale string, epoch int64) (GateState, error)

	// Sales are the IDs of the sales to audit; empty for all that were ever exposed.
	Sales []string

	// Every is how long Watch waits between two samples; 100 ms if 0.
	Every time.Duration

	// Slack is how late a ticket or an order may end; 30 s if 0.
	Slack time.Duration

	// Rest is how long Final waits for an inventory and its ledger to be at rest; 5 s if 0.
	Rest time.Duration
}

// A GateState is what an inventory says of a sale.
type GateState struct {
	Epoch       int64
	Stock       int64
	Free        int64
	Outstanding int64    // admitted, not used, still valid
	Backlog     int64    // entries of its stream
	Held        []string // reservation IDs that it holds; nil if it does not tell
	Workers     int      // who read its stream; 0 if it does not tell
}

// Facts are what Final is told, beside what it reads itself.
type Facts struct {
	// Observations are what buyers saw, in any order.
	Observations []Observation

	// Complete says that every call of every buyer is among them. Only then does an order
	// that nobody asked for mean anything.
	Complete bool

	// Settled says that nobody buys any more, and that the times to pay are over.
	Settled bool

	// Failed says that an inventory may have lost what it had acknowledged: it failed over, or was
	// emptied. Otherwise a reservation that is lost or rejected is one too many.
	Failed bool

	// Demand is how many units of a sale were wanted to the end, by its ID: by buyers who
	// asked on until they had one or were told that there is none.
	Demand map[string]int64

	// Batch is how many tickets are admitted at once at most; 500 if 0.
	Batch int

	// Workers is how many order writers there may be; 0 if that is not known.
	Workers int

	// Layers is what the servers say they refused, by layer, for all the Observations
	// together; nil if that is not known.
	Layers map[string]int64

	// Reservation returns the reservation ID that a receipt names, or "". Nil for the form
	// of receipts that the shop documents.
	Reservation func(receipt string) string

	// Reconcile lets the shop compare its gate and ledger, and returns how many rows it
	// changed; nil if nobody can. It is called twice for each sale.
	Reconcile func(ctx context.Context, sale string) (changed int, err error)
}

// An Auditor watches sales. Its methods are safe for concurrent use.
type Auditor struct {
	config Config
	db     *database
	book   *book

	mu     sync.Mutex
	before map[string]saleRow // what the last sample saw
	ended  map[string]string  // the last state of orders that had one, by reservation
}

// Open connects to the database, and to nothing else yet.
func Open(ctx context.Context, c Config) (*Auditor, error) {
	if c.Every < 0 || c.Slack < 0 || c.Rest < 0 {
		return nil, fmt.Errorf("auditor: every %s, slack %s, rest %s: expected no negative time", c.Every, c.Slack, c.Rest)
	}
	if c.Every == 0 {
		c.Every = 100 * time.Millisecond
	}
	if c.Rest == 0 {
		c.Rest = 5 * time.Second
	}
	if c.Prefix == "" {
		c.Prefix = "fs:"
	}
	if c.Slack == 0 {
		c.Slack = 30 * time.Second
	}
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	return &Auditor{config: c, db: db, book: newBook(), before: map[string]saleRow{}, ended: map[string]string{}}, nil
}

// Close closes the connections to the database.
func (a *Auditor) Close() error { return a.db.db.Close() }

// Report returns what has been found so far.
func (a *Auditor) Report() *Report { return a.book.report() }

// deepEvery is how many samples pass between two that look at every row.
const deepEvery = 50

// Watch samples until ctx is done. What cannot be looked at (a database that is stopped) is
// noted in the Report, and looked at again.
func (a *Auditor) Watch(ctx context.Context) {
	t := time.NewTicker(a.config.Every)
	defer t.Stop()
	for n := 1; ; n++ {
		err := a.sample(ctx)
		if err == nil && n%deepEvery == 0 {
			_, err = a.inspect(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.book.failed("database", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Final checks everything once more, and what facts tell, and returns the whole Report. An
// error says that the database could not be read, or wraps ErrNothing: a sale that was named
// was never exposed there, or none was.
func (a *Auditor) Final(ctx context.Context, facts Facts) (*Report, error) {
	if facts.Batch == 0 {
		facts.Batch = 500
	}
	if facts.Reservation == nil {
		facts.Reservation = reservationOf
	}
	if err := a.known(ctx, false); err != nil {
		return a.Report(), err
	}
	if err := a.sample(ctx); err != nil {
		return a.Report(), fmt.Errorf("auditor: sample: %w", err)
	}
	all, err := a.inspect(ctx)
	if err != nil {
		return a.Report(), fmt.Errorf("auditor: inspect: %w", err)
	}
	j := newJudge(a, all, facts)
	j.kept()
	j.observed()
	err = a.compareGates(ctx, facts)
	if facts.Settled {
		if all, e := a.inspect(ctx); e == nil {
			a.settled(ctx, all, facts)
		} else {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return a.Report(), fmt.Errorf("auditor: %w", err)
	}
	return a.Report(), nil
}
