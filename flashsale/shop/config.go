package shop

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// Config configures a Shop. Inventory, Ledger, Limits, Keys and Worker are required.
type Config struct {
	Inventory sale.Inventory
	Ledger    sale.Ledger
	Limits    weir.Store // holds the admission limits; all shops of an inventory share it
	Keys      *pass.Keys

	// Curves stores the figures of sales over time, which a Dashboard shows; none if nil.
	Curves sale.Curves

	// Worker identifies this process among those of the same inventory: 1 to 56 letters,
	// digits, . _ -
	Worker string

	// Workers is the number of order writers: 1 to 64, 2 if 0.
	Workers int

	// Members reports that buyers can have an identity. Without one, a sale for members only
	// cannot be exposed.
	Members bool

	// MaxWaiting is the number of tickets that can wait for one sale: 1,000,000 if 0.
	MaxWaiting int64

	// Deadline is the timeout of one call to the inventory or the ledger: at least 10 ms,
	// 2 s if 0.
	Deadline time.Duration

	// Refused returns the refusals that a Dashboard shows, by layer and reason. If nil, a
	// Dashboard shows those of this Shop.
	Refused func() map[sale.Layer]map[sale.Reason]int64

	Clock func() time.Time // time.Now if nil
	Crash crashpoint.Hook  // no effect if nil
	Log   *slog.Logger     // discards if nil
}

// Periods of the background work.
const (
	refreshEvery = 100 * time.Millisecond // of the counts of a busy sale
	sweepEvery   = time.Second
	listEvery    = time.Second
	attendEvery  = sale.WorkerFor / 3
	patrolEvery  = 5 * time.Second // one quiet sale is checked

	busyFor      = 2 * time.Second      // after the last request about a sale
	countsAtOnce = 5 * time.Millisecond // between the counts of all busy sales
)

func (c Config) validated() (Config, error) {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("shop: %s: got %v, want %s", field, value, want))
		}
	}
	if c.Workers == 0 {
		c.Workers = 2
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 1_000_000
	}
	if c.Deadline == 0 {
		c.Deadline = 2 * time.Second
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	check(c.Inventory != nil, "Inventory", nil, "an inventory")
	check(c.Ledger != nil, "Ledger", nil, "a ledger")
	check(c.Limits != nil, "Limits", nil, "a weir.Store")
	check(c.Keys != nil, "Keys", nil, "keys")
	check(sale.IsWorkerName(c.Worker) && len(c.Worker) <= 56, "Worker", fmt.Sprintf("%q", c.Worker), "1 to 56 letters, digits, . _ -")
	check(c.Workers >= 1 && c.Workers <= 64, "Workers", c.Workers, "1 to 64")
	check(c.MaxWaiting >= 1, "MaxWaiting", c.MaxWaiting, "at least 1")
	check(c.Deadline >= 10*time.Millisecond, "Deadline", c.Deadline, "at least 10ms")
	return c, errors.Join(errs...)
}
