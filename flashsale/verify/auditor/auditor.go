package auditor

import (
	"cmp"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/inventorystate"

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

	// Redis holds the inventories; nil if they are in the shop's process.
	Redis rueidis.Client

	// Prefix is the prefix of the inventories' keys in Redis; "fs:" if empty.
	Prefix string

	// Inventory returns the state of an inventory that is not in Redis. If both Inventory and
	// Redis are nil, the inventory is not checked.
	Inventory func(ctx context.Context, sale string, epoch int64) (inventorystate.State, error)

	// Sales are the IDs of the sales to audit; empty for all sales that were exposed.
	Sales []string

	// Every is the interval of Watch between two samples; 100 ms if 0.
	Every time.Duration

	// Slack is the maximum delay of an expiry; 30 s if 0.
	Slack time.Duration

	// AnswerWithin is the time after the last payment in which a response may say "waiting",
	// plus the poll interval of that response; 1 s if 0.
	AnswerWithin time.Duration

	// StableWithin is the time that Final waits until an inventory and its ledger are stable;
	// 5 s if 0.
	StableWithin time.Duration
}

// Facts are the inputs of Final that it cannot read from the stores.
type Facts struct {
	// Observations are the calls of buyers and their responses, in any order.
	Observations []calllog.Call

	// Complete says that Observations has every call of every buyer. Only then can Final
	// check that every order was requested.
	Complete bool

	// Settled says that all buyers have stopped and every payment deadline has passed.
	Settled bool

	// Failed says that an inventory may have lost acknowledged writes, in a failover or a
	// flush. Without it a lost or rejected reservation is a violation.
	Failed bool

	// Demand is the number of units that buyers wanted, by sale. It counts buyers who
	// continued until they had a unit or a final refusal.
	Demand map[string]int64

	// Batch is the maximum number of tickets in one admission batch; 500 if 0.
	Batch int

	// Workers is the maximum number of order writers; 0 if unknown.
	Workers int

	// Layers are the servers' counters of refusals by layer, for all Observations together;
	// nil if unknown.
	Layers map[string]int64

	// Reservation returns the reservation ID of a receipt, or "". If it is nil, receipts
	// have the documented format.
	Reservation func(receipt string) string

	// Reconcile runs the shop's reconciliation of a sale and returns the number of rows that
	// it changed. Final calls it twice per sale; nil skips that check.
	Reconcile func(ctx context.Context, sale string) (changed int, err error)
}

// An Auditor checks the invariants of sales. Its methods are safe for concurrent use.
type Auditor struct {
	config  Config
	db      *database
	records *records

	mu     sync.Mutex
	before map[string]saleRow // by sale, from the last sample
	ended  map[string]string  // final states of orders, by reservation
}

// Open connects to the database. It does not connect to Redis.
func Open(ctx context.Context, c Config) (*Auditor, error) {
	if c.Every < 0 || c.Slack < 0 || c.AnswerWithin < 0 || c.StableWithin < 0 {
		return nil, fmt.Errorf("auditor: every %s, slack %s, answer within %s, stable within %s: want no negative duration",
			c.Every, c.Slack, c.AnswerWithin, c.StableWithin)
	}
	c.Every = cmp.Or(c.Every, 100*time.Millisecond)
	c.AnswerWithin = cmp.Or(c.AnswerWithin, time.Second)
	c.StableWithin = cmp.Or(c.StableWithin, 5*time.Second)
	c.Prefix = cmp.Or(c.Prefix, "fs:")
	c.Slack = cmp.Or(c.Slack, 30*time.Second)
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	return &Auditor{config: c, db: db, records: newRecords(), before: map[string]saleRow{}, ended: map[string]string{}}, nil
}

// Close closes the connections to the database.
func (a *Auditor) Close() error { return a.db.db.Close() }

// Report returns the findings so far.
func (a *Auditor) Report() *Report { return a.records.report() }

// deepEvery is the number of samples between two that check every row.
const deepEvery = 50

// Watch takes samples until ctx is done. If a store is unavailable, Watch adds the error to
// the Report and continues.
func (a *Auditor) Watch(ctx context.Context) {
	t := time.NewTicker(a.config.Every)
	defer t.Stop()
	for n := 1; ; n++ {
		err := a.sample(ctx)
		if err == nil && n%deepEvery == 0 {
			_, err = a.inspect(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.records.addError("database", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Final checks every row and the facts, and returns the complete Report. It returns an error
// if the database cannot be read. The error wraps ErrNothing if a sale of Config.Sales, or
// every sale, was never exposed.
func (a *Auditor) Final(ctx context.Context, facts Facts) (*Report, error) {
	if facts.Batch == 0 {
		facts.Batch = 500
	}
	if facts.Reservation == nil {
		facts.Reservation = calllog.ReservationOf
	}
	if err := a.requireSales(ctx, false); err != nil {
		return a.Report(), err
	}
	if err := a.sample(ctx); err != nil {
		return a.Report(), fmt.Errorf("auditor: sample: %w", err)
	}
	all, err := a.inspect(ctx)
	if err != nil {
		return a.Report(), fmt.Errorf("auditor: inspect: %w", err)
	}
	c := newChecker(a, all, facts)
	c.acknowledged()
	c.observations()
	err = a.compareInventories(ctx, facts)
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
