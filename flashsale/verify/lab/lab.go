package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A Design is a way to sell units one by one.
type Design string

const (
	// Naive locks with SET NX PX, reads the stock, writes it back less one, and deletes the
	// lock, whoever's it is by then.
	Naive Design = "naive"

	// Fenced locks the same way, but each holder has a number that grows, and the stock
	// refuses to be read or written with a smaller one than it has seen.
	Fenced Design = "fenced"

	// Segmented splits the stock in segments with a lock each. Taking from a segment is
	// guarded; who finds its own empty steals from the others.
	Segmented Design = "segmented"

	// Atomic takes a unit in one script, without a lock.
	Atomic Design = "atomic"
)

// Designs returns all of them.
func Designs() []Design { return []Design{Naive, Fenced, Segmented, Atomic} }

// The bounds of a run.
const (
	MaxBuyers = 500
	MaxStock  = 500
	MaxPause  = 2 * time.Second
)

// ErrInvalid says that a field of a Config has a value that is not accepted.
var ErrInvalid = errors.New("lab: invalid")

// A Config is one run.
type Config struct {
	Design Design        // required
	Buyers int           // who want a unit each, at once: 1 to MaxBuyers
	Stock  int           // 1 to MaxStock
	Pause  time.Duration // for how long some buyers stop between reading and writing: 0 to MaxPause

	// Pauses is how many buyers stop, spread over the stock, the first to come among them;
	// 3 if 0.
	Pauses int

	// TTL is after what time a lock comes free by itself; 50 ms if 0. A Pause that is longer
	// is what a naive lock does not survive.
	TTL time.Duration

	// Redis is where the stock is; nil for a store in this process that behaves as Redis does.
	Redis rueidis.Client
}

// A Result is what a run sold.
type Result struct {
	Design    Design
	Buyers    int
	Stock     int
	Sold      int // buyers who were told that they have a unit
	Oversold  int // units that were sold and did not exist
	Undersold int // units that were wanted and not sold
	Paused    int // buyers who stopped
	Took      time.Duration
	PerSecond float64 // buyers who were answered, in a second
}

func (c *Config) check() error {
	switch {
	case c.Design != Naive && c.Design != Fenced && c.Design != Segmented && c.Design != Atomic:
		return fmt.Errorf("%w: design %q, expected naive, fenced, segmented or atomic", ErrInvalid, c.Design)
	case c.Buyers < 1 || c.Buyers > MaxBuyers:
		return fmt.Errorf("%w: buyers %d, expected 1 to %d", ErrInvalid, c.Buyers, MaxBuyers)
	case c.Stock < 1 || c.Stock > MaxStock:
		return fmt.Errorf("%w: stock %d, expected 1 to %d", ErrInvalid, c.Stock, MaxStock)
	case c.Pause < 0 || c.Pause > MaxPause:
		return fmt.Errorf("%w: pause %s, expected 0s to %s", ErrInvalid, c.Pause, MaxPause)
	case c.Pauses < 0 || c.Pauses > MaxBuyers:
		return fmt.Errorf("%w: pauses %d, expected 0 to %d", ErrInvalid, c.Pauses, MaxBuyers)
	case c.TTL < 0 || c.TTL > time.Minute || c.TTL > 0 && c.TTL < time.Millisecond:
		return fmt.Errorf("%w: ttl %s, expected 1ms to 1m0s", ErrInvalid, c.TTL)
	}
	return nil
}

// Run sends the buyers of one run through a design, and counts. An error says that the run
// was not finished: a Config that wraps ErrInvalid, a store that failed, or ctx.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if c.TTL == 0 {
		c.TTL = 50 * time.Millisecond
	}
	if c.Pauses == 0 {
		c.Pauses = 3
	}
	r := &run{Config: c, name: "flashsale:lab:" + rand.Text()}
	if c.Redis != nil {
		r.store = remote{c.Redis}
	} else {
		r.store = newMemory()
	}
	d := designs()[c.Design]
	if err := d.open(ctx, r); err != nil {
		return Result{}, fmt.Errorf("lab: %s: %w", c.Design, err)
	}
	began := time.Now()
	sold, err := r.runBuyers(ctx, d.buy)
	took := time.Since(began)
	// The keys expire by themselves too, if this fails.
	clean := r.store.del(context.WithoutCancel(ctx), d.keys(r)...)
	if err := errors.Join(err, clean); err != nil {
		return Result{}, fmt.Errorf("lab: %s: %w", c.Design, err)
	}
	return Result{
		Design:    c.Design,
		Buyers:    c.Buyers,
		Stock:     c.Stock,
		Sold:      sold,
		Oversold:  max(0, sold-c.Stock),
		Undersold: max(0, min(c.Stock, c.Buyers)-sold),
		Paused:    int(r.paused.Load()),
		Took:      took,
		PerSecond: float64(c.Buyers) / max(took.Seconds(), 1e-6),
	}, nil
}

// A run is one that goes on.
type run struct {
	Config
	name     string
	store    store
	sections atomic.Int64 // how many buyers have come to the point at which one may stop
	paused   atomic.Int64
}

// crowd lets all buyers go at once, and returns how many have a unit.
func (r *run) runBuyers(ctx context.Context, buy func(context.Context, *run, int) (bool, error)) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sold atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for buyer := range r.Buyers {
		all.Go(func() {
			<-start
			got, err := buy(ctx, r, buyer)
			if err != nil {
				cancel(err) // one that failed says nothing about the design: the run is void
			}
			if got {
				sold.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	return int(sold.Load()), context.Cause(ctx)
}

// pause stops the buyer if it is one of those who stop: the first who comes here, and then
// every so many.
func (r *run) pause(ctx context.Context) error {
	n := r.sections.Add(1) - 1
	stride := max(1, int64(r.Stock)/int64(r.Pauses))
	if r.Pause == 0 || n%stride != 0 || n/stride >= int64(r.Pauses) {
		return nil
	}
	r.paused.Add(1)
	return wait(ctx, r.Pause)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
