package meminventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// An Inventory is a sale.Inventory in this process. It is safe for concurrent use. Make it with New.
type Inventory struct {
	cfg   Config
	cmds  commands
	clock atomic.Int64 // the latest that was seen of it, in microseconds

	ctx  context.Context // ends with Stop
	stop context.CancelFunc
	runs sync.WaitGroup

	mu    sync.RWMutex
	lanes map[string]*lane // guarded by mu; nil after Stop
}

var _ sale.Inventory = (*Inventory)(nil)

// New returns an Inventory without any state. An error names the field that is wrong. Stop it
// when it is not needed any more.
func New(cfg Config) (*Inventory, error) {
	if cfg.Redeliver < 0 {
		return nil, fmt.Errorf("meminventory: Config.Redeliver is %v, want 0 or more", cfg.Redeliver)
	}
	if cfg.MaxTickets < 0 {
		return nil, fmt.Errorf("meminventory: Config.MaxTickets is %d, want 0 or more", cfg.MaxTickets)
	}
	if cfg.Redeliver == 0 {
		cfg.Redeliver = 10 * time.Second
	}
	if cfg.MaxTickets == 0 {
		cfg.MaxTickets = 2_000_000
	}
	if cfg.Journal == nil {
		cfg.Journal = NewMemoryJournal()
	}
	if cfg.Clock == nil {
		begun := time.Now()
		cfg.Clock = func() time.Time { return begun.Round(0).Add(time.Since(begun)) }
	}
	e := &Inventory{cfg: cfg, lanes: make(map[string]*lane)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e, nil
}

// Stop ends the Inventory and its goroutines. What is on its way to the Journal arrives before
// that and is acknowledged. From then on every method is an error that wraps
// sale.ErrUnavailable. It may be called again.
func (e *Inventory) Stop() {
	e.mu.Lock()
	e.lanes = nil
	e.mu.Unlock()
	e.stop()
	e.runs.Wait()
}

// now is the time in microseconds. It never runs back.
func (e *Inventory) now() int64 {
	now := e.cfg.Clock().UnixMicro()
	for {
		seen := e.clock.Load()
		if now <= seen {
			return seen
		}
		if e.clock.CompareAndSwap(seen, now) {
			return now
		}
	}
}

// lane returns the lane of a sale, or nil if there is none and none is to be made.
func (e *Inventory) lane(id string, create bool) (*lane, error) {
	e.mu.RLock()
	l, stopped := e.lanes[id], e.lanes == nil
	e.mu.RUnlock()
	if stopped {
		return nil, errStopped
	}
	if l != nil || !create {
		return l, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lanes == nil {
		return nil, errStopped
	}
	if l = e.lanes[id]; l == nil {
		l = newLane(e, id)
		e.lanes[id] = l
		e.runs.Go(l.run)
	}
	return l, nil
}

// forget is called by a lane whose goroutine ends.
func (e *Inventory) forget(l *lane) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lanes[l.sale] == l {
		delete(e.lanes, l.sale)
	}
}

// send gives a command to the lane of a sale and waits for its answer, which is also in
// c.err. If it returns false there was no answer: c belongs to the lane then.
func (e *Inventory) send(ctx context.Context, id string, c *command) (bool, error) {
	for {
		l, err := e.lane(id, c.op == opOpen || c.op == opAdopt)
		if err != nil {
			return true, err
		}
		if l == nil {
			return true, errStale(id, c.epoch)
		}
		select {
		case l.mail <- c:
		default:
			select {
			case l.mail <- c:
			case <-ctx.Done():
				return true, unavailable("waiting for", id, context.Cause(ctx))
			case <-l.gone:
				continue
			}
		}
		select {
		case <-c.done:
			return true, c.err
		case <-ctx.Done():
			return false, unavailable("waiting for", id, context.Cause(ctx))
		case <-l.gone:
		}
		// The lane has ended: it answered just before, or never saw the command.
		select {
		case <-c.done:
			return true, c.err
		default:
		}
	}
}

var errStopped = fmt.Errorf("meminventory: stopped: %w", sale.ErrUnavailable)

func errStale(id string, epoch int64) error {
	return fmt.Errorf("meminventory: %s at epoch %d: %w", id, epoch, sale.ErrStale)
}

func unavailable(what, id string, cause error) error {
	return fmt.Errorf("meminventory: %s %s: %w: %w", what, id, sale.ErrUnavailable, cause)
}

func invalid(field string, value any, want string) error {
	return fmt.Errorf("meminventory: %s is %v, want %s: %w", field, value, want, sale.ErrInvalid)
}

// isStale says whether err is for want of a state.
func isStale(err error) bool { return errors.Is(err, sale.ErrStale) }
