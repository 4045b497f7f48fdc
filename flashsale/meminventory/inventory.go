package meminventory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Inventory implements sale.Inventory. It is safe for concurrent use. New makes one.
type Inventory struct {
	cfg      Config
	commands commands
	clock    atomic.Int64 // the latest reading, in microseconds

	ctx  context.Context // ends with Stop
	stop context.CancelFunc
	runs sync.WaitGroup

	mu      sync.RWMutex      // guards what follows
	shards  map[string]*shard // nil after Stop
	workers map[string]int64  // when each called Attend last, in microseconds
}

var _ sale.Inventory = (*Inventory)(nil)

// New returns an Inventory without any state. Stop releases its goroutines.
func New(cfg Config) (*Inventory, error) {
	if cfg.Redeliver < 0 {
		return nil, fmt.Errorf("meminventory: Config.Redeliver: got %v, want 0 or more", cfg.Redeliver)
	}
	if cfg.MaxTickets < 0 {
		return nil, fmt.Errorf("meminventory: Config.MaxTickets: got %d, want 0 or more", cfg.MaxTickets)
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
	i := &Inventory{cfg: cfg, shards: make(map[string]*shard), workers: make(map[string]int64)}
	i.ctx, i.stop = context.WithCancel(context.Background())
	return i, nil
}

// Stop ends the goroutines of the Inventory. Reservations that are being appended to the Journal
// are completed and acknowledged. Afterwards every method returns an error that wraps
// sale.ErrUnavailable. Stop may be called again.
func (i *Inventory) Stop() {
	i.mu.Lock()
	i.shards = nil
	i.mu.Unlock()
	i.stop()
	i.runs.Wait()
}

// now returns the time in microseconds. It never goes back.
func (i *Inventory) now() int64 {
	now := i.cfg.Clock().UnixMicro()
	for {
		seen := i.clock.Load()
		if now <= seen {
			return seen
		}
		if i.clock.CompareAndSwap(seen, now) {
			return now
		}
	}
}

// shard returns the shard of a sale. Without create it returns nil if there is none.
func (i *Inventory) shard(id string, create bool) (*shard, error) {
	i.mu.RLock()
	l, stopped := i.shards[id], i.shards == nil
	i.mu.RUnlock()
	if stopped {
		return nil, errStopped
	}
	if l != nil || !create {
		return l, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shards == nil {
		return nil, errStopped
	}
	if l = i.shards[id]; l == nil {
		l = newShard(i, id)
		i.shards[id] = l
		i.runs.Go(l.run)
	}
	return l, nil
}

// remove removes a shard whose goroutine ends.
func (i *Inventory) remove(l *shard) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shards[l.sale] == l {
		delete(i.shards, l.sale)
	}
}

// send sends a command to the shard of a sale and waits for its result, whose error is also in
// c.err. If it returns false, the command is not complete and c belongs to the shard.
func (i *Inventory) send(ctx context.Context, id string, c *command) (bool, error) {
	for {
		l, err := i.shard(id, c.op == opOpen || c.op == opRestore)
		if err != nil {
			return true, err
		}
		if l == nil {
			return true, errStale(id, c.epoch)
		}
		select {
		case l.inbox <- c:
		default:
			select {
			case l.inbox <- c:
			case <-ctx.Done():
				return true, unavailable("waiting for", id, context.Cause(ctx))
			case <-l.ended:
				continue
			}
		}
		select {
		case <-c.done:
			return true, c.err
		case <-ctx.Done():
			return false, unavailable("waiting for", id, context.Cause(ctx))
		case <-l.ended:
		}
		// The goroutine has ended. It may have completed the command just before.
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
	return fmt.Errorf("meminventory: %s: got %v, want %s: %w", field, value, want, sale.ErrInvalid)
}
