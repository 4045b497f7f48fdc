package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// Config of a Shop. Inventory, Ledger, Limits, Keys and Worker are required.
type Config struct {
	Inventory sale.Inventory
	Ledger    sale.Ledger
	Limits    weir.Store // of the admission; the same one for all shops of an Inventory
	Keys      *pass.Keys

	// Worker tells this shop from others of the same Inventory: 1 to 56 letters, digits, . _ -
	Worker string

	// Workers is the number of clerks: 1 to 64, 2 if 0.
	Workers int

	// MaxWaiting is how many may wait in the line of a sale: 1,000,000 if 0.
	MaxWaiting int64

	// Deadline is how long a question to the Inventory or the Ledger may take: 2 s if 0, at
	// least 10 ms.
	Deadline time.Duration

	// Refused are the refusals that a Board shows, by layer and reason; those of the Shop
	// itself if nil.
	Refused func() map[sale.Layer]map[sale.Reason]int64

	Clock func() time.Time // time.Now if nil
	Crash crashpoint.Hook  // nothing if nil
	Log   *slog.Logger     // nothing is logged if nil
}

// How often the parts of a Shop look.
const (
	refreshEvery = 100 * time.Millisecond
	admitEvery   = 20 * time.Millisecond
	sweepEvery   = 200 * time.Millisecond
	listEvery    = time.Second
)

func (c Config) checked() (Config, error) {
	var faults []error
	bad := func(field string, value any, want string) {
		faults = append(faults, fmt.Errorf("shop: %s = %v, want %s", field, value, want))
	}
	if c.Inventory == nil {
		bad("Inventory", nil, "an inventory")
	}
	if c.Ledger == nil {
		bad("Ledger", nil, "a ledger")
	}
	if c.Limits == nil {
		bad("Limits", nil, "a store of Weir")
	}
	if c.Keys == nil {
		bad("Keys", nil, "keys")
	}
	if !sale.IsWorkerName(c.Worker) || len(c.Worker) > 56 {
		bad("Worker", fmt.Sprintf("%q", c.Worker), "1 to 56 letters, digits, . _ -")
	}
	if c.Workers == 0 {
		c.Workers = 2
	}
	if c.Workers < 1 || c.Workers > 64 {
		bad("Workers", c.Workers, "1 to 64")
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 1_000_000
	}
	if c.MaxWaiting < 0 {
		bad("MaxWaiting", c.MaxWaiting, "at least 1")
	}
	if c.Deadline == 0 {
		c.Deadline = 2 * time.Second
	}
	if c.Deadline < 10*time.Millisecond {
		bad("Deadline", c.Deadline, "at least 10ms")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(faults...)
}

// A Shop is a sale.BuyerService and a sale.MerchantService. It is safe for concurrent use.
type Shop struct {
	Config

	open     atomic.Pointer[window]
	shelf    atomic.Pointer[shelf]
	other    cache
	drain    *drain
	gateTime gateTime
	tally    counters
	look     chan struct{} // of the lister: look now
	returns  chan struct{} // of the sweeper: give back now
	sighted  chan sale.NetworkUse

	mu      sync.Mutex // of what follows, and of replacing open
	started bool
	stopped bool
	ctx     context.Context
	end     context.CancelFunc
	wg      sync.WaitGroup
}

var (
	_ sale.BuyerService    = (*Shop)(nil)
	_ sale.MerchantService = (*Shop)(nil)
)

// New makes a Shop. Nothing runs before Start.
func New(c Config) (*Shop, error) {
	c, err := c.checked()
	if err != nil {
		return nil, err
	}
	s := &Shop{Config: c, look: make(chan struct{}, 1), returns: make(chan struct{}, 1),
		sighted: make(chan sale.NetworkUse, sightings)}
	s.open.Store(&window{})
	s.shelf.Store(&shelf{})
	s.drain, err = newDrain(c.Limits, c.Worker)
	return s, err
}

// Start looks at the Ledger once, so that the sales that are live are known when it
// returns, and begins to work until Stop; ctx is of that look alone. A Ledger that is away
// is no error: it is asked again.
func (s *Shop) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return errors.New("shop: started already")
	}
	s.started = true
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Unlock()
	s.list(ctx, true)
	s.run(s.lister)
	s.run(s.sweeper)
	s.run(s.watcher)
	for i := range s.Workers {
		s.run(func(ctx context.Context) { s.clerk(ctx, i) })
	}
	return nil
}

// Stop ends what Start began, and waits for it: what is in hand is finished, within
// Deadline. Stopping again, or without a start, does nothing.
func (s *Shop) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.end != nil {
		s.end()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// run runs f in a goroutine of the Shop's, unless it is stopped.
func (s *Shop) run(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.wg.Go(func() { f(s.ctx) })
}

// within is ctx with the deadline of one question. It outlives the end of ctx for work that
// is in hand.
func (s *Shop) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.Deadline)
}

// inHand is ctx for work that is finished even when the Shop stops.
func (s *Shop) inHand(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Deadline)
}

// kick wakes who waits for c.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// away wraps an error that is none of the words of package sale as ErrUnavailable.
func away(doing string, err error) error {
	for _, known := range []error{sale.ErrUnavailable, sale.ErrNotFound, sale.ErrConflict, sale.ErrInvalid} {
		if errors.Is(err, known) {
			return fmt.Errorf("shop: %s: %w", doing, err)
		}
	}
	return fmt.Errorf("shop: %s: %w: %w", doing, sale.ErrUnavailable, err)
}
