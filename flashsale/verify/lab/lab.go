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
	// lock, even if it expired and belongs to another buyer.
	Naive Design = "naive"

	// Fenced locks in the same way, but each holder has an increasing number. The stock refuses
	// reads and writes with a smaller number than the largest it has seen.
	Fenced Design = "fenced"

	// Segmented splits the stock into segments with one lock each. Taking from a segment is
	// guarded, and a buyer whose segment is empty tries the others.
	Segmented Design = "segmented"

	// Atomic takes a unit in one script, without a lock.
	Atomic Design = "atomic"
)

// Designs returns all designs.
func Designs() []Design { return []Design{Naive, Fenced, Segmented, Atomic} }

// The limits of a run.
const (
	MaxBuyers = 500
	MaxStock  = 500
	MaxPause  = 2 * time.Second
)

// ErrInvalid is wrapped by Run if a field of Config is invalid.
var ErrInvalid = errors.New("lab: invalid")

// A Config holds the parameters of one run.
type Config struct {
	Design Design        // required
	Buyers int           // concurrent buyers of one unit each: 1 to MaxBuyers
	Stock  int           // 1 to MaxStock
	Pause  time.Duration // how long some buyers pause between reading and writing: 0 to MaxPause

	// Pauses is the number of buyers who pause, spread over the stock, the first one among them;
	// 3 if 0.
	Pauses int

	// TTL is the expiry of a lock; 50 ms if 0. A naive lock fails if Pause is longer.
	TTL time.Duration

	// Redis holds the stock; nil for a store in this process with the same behaviour.
	Redis rueidis.Client
}

// A Result counts what a run sold.
type Result struct {
	Design    Design
	Buyers    int
	Stock     int
	Sold      int // buyers with a unit
	Oversold  int // units sold above the stock
	Undersold int // units requested and not sold
	Paused    int // buyers who paused
	Took      time.Duration
	PerSecond float64 // buyers per second
}

func (c *Config) check() error {
	switch {
	case c.Design != Naive && c.Design != Fenced && c.Design != Segmented && c.Design != Atomic:
		return fmt.Errorf("%w: design %q, want naive, fenced, segmented or atomic", ErrInvalid, c.Design)
	case c.Buyers < 1 || c.Buyers > MaxBuyers:
		return fmt.Errorf("%w: buyers %d, want 1 to %d", ErrInvalid, c.Buyers, MaxBuyers)
	case c.Stock < 1 || c.Stock > MaxStock:
		return fmt.Errorf("%w: stock %d, want 1 to %d", ErrInvalid, c.Stock, MaxStock)
	case c.Pause < 0 || c.Pause > MaxPause:
		return fmt.Errorf("%w: pause %s, want 0s to %s", ErrInvalid, c.Pause, MaxPause)
	case c.Pauses < 0 || c.Pauses > MaxBuyers:
		return fmt.Errorf("%w: pauses %d, want 0 to %d", ErrInvalid, c.Pauses, MaxBuyers)
	case c.TTL < 0 || c.TTL > time.Minute || c.TTL > 0 && c.TTL < time.Millisecond:
		return fmt.Errorf("%w: ttl %s, want 1ms to 1m0s", ErrInvalid, c.TTL)
	}
	return nil
}

// Run sends the buyers of one run through a design. It returns an error if the run was not
// completed: it wraps ErrInvalid, or comes from the store or ctx.
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
	// If this fails, the keys still expire.
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

// A run is a run in progress.
type run struct {
	Config
	name     string
	store    store
	sections atomic.Int64 // buyers that reached the point of a possible pause
	paused   atomic.Int64
}

// runBuyers starts all buyers at once and returns the number of units sold.
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
				cancel(err) // an error invalidates the run
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

// pause pauses the first buyer that calls it, and then every few ones.
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
