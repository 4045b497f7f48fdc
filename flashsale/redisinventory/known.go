package redisinventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// known holds what this process has learned about the state of a sale.
type known struct {
	keys  []string
	epoch int64
	stale bool      // the state at this epoch is gone
	seen  int64     // the latest time, in µs
	asked time.Time // time of the last call, by the wall clock
}

// kept bounds the checks of a sale after the last call about it.
const kept = 10 * time.Minute

// recall returns the keys of a sale and its latest known time, or ErrStale if this process
// knows that the state is gone.
func (g *Inventory) recall(doing, id string, epoch int64) ([]string, int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.known[id]
	switch {
	case k == nil:
		return g.parts(id), 0, nil
	case epoch < k.epoch || epoch == k.epoch && k.stale:
		return nil, 0, g.staleError(doing, id, epoch, "known")
	}
	return k.keys, k.seen, nil
}

// remember records a reply of a state.
func (g *Inventory) remember(id string, epoch int64, keys []string, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.known[id]
	if k == nil {
		k = &known{keys: keys}
		g.known[id] = k
	}
	if epoch > k.epoch {
		k.epoch, k.stale = epoch, false
	}
	k.seen = max(k.seen, now)
	k.asked = time.Now()
}

// opened records that this process has opened the state at an epoch, or found it open.
func (g *Inventory) opened(id string, epoch, now int64) {
	g.mu.Lock()
	if k := g.known[id]; k != nil && k.epoch != epoch {
		k.epoch, k.stale = epoch, false
	}
	g.mu.Unlock()
	g.remember(id, epoch, g.parts(id), now)
}

// forget removes a sale that was deleted.
func (g *Inventory) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, id)
}

// stale records that a state is gone, if this process knew it, and returns the error.
func (g *Inventory) stale(doing, id string, epoch int64, why string) error {
	g.mu.Lock()
	k := g.known[id]
	first := k != nil && k.epoch == epoch && !k.stale
	if first {
		k.stale = true
	}
	g.mu.Unlock()
	if first && g.cfg.Log != nil {
		g.cfg.Log.Log(context.Background(), slog.LevelWarn, "the state of a sale is gone", "sale", id, "epoch", epoch, "why", reasons(why))
	}
	return g.staleError(doing, id, epoch, why)
}

func (g *Inventory) staleError(doing, id string, epoch int64, why string) error {
	return fmt.Errorf("redisinventory: %s: sale %.64q, epoch %d: %w: %s", doing, id, epoch, sale.ErrStale, reasons(why))
}

func reasons(why string) string {
	switch why {
	case "none":
		return "there is none"
	case "closed":
		return "it is closed"
	case "damaged":
		return "a part of it is missing or wrong"
	case "server":
		return "it was opened on another server"
	case "known":
		return "it was found gone before"
	}
	return why
}

// damaged closes a state with a corrupt record and returns the error.
func (g *Inventory) damaged(ctx context.Context, doing, id string, epoch int64, err error) error {
	g.forsake(ctx, id, epoch)
	return fmt.Errorf("redisinventory: %s: sale %.64q, epoch %d: %w: %w: %w", doing, id, epoch, sale.ErrStale, errDamaged, err)
}

// forsake closes a state that cannot be parsed.
func (g *Inventory) forsake(ctx context.Context, id string, epoch int64) {
	g.stale("check", id, epoch, "damaged")
	// If this fails, the next call finds the same corruption.
	_ = g.Close(context.WithoutCancel(ctx), id, epoch)
}

// watch checks, for each sale with recent calls, that the server is the one on which the state
// was opened.
func (g *Inventory) watch(ctx context.Context) {
	defer close(g.done)
	tick := time.NewTicker(g.cfg.Watch)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-g.kick:
			if time.Since(last) < g.cfg.Watch/10 {
				continue // the next tick is near, and calls fail in groups
			}
		}
		last = time.Now()
		var wg sync.WaitGroup
		slots := make(chan struct{}, 16)
		for id, epoch := range g.watched() {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				g.compare(ctx, id, epoch)
			})
		}
		wg.Wait()
	}
}

// watched returns the sales to check, and removes those without recent calls.
func (g *Inventory) watched() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	sales := map[string]int64{}
	for id, k := range g.known {
		switch {
		case time.Since(k.asked) > kept:
			delete(g.known, id)
		case !k.stale:
			sales[id] = k.epoch
		}
	}
	return sales
}

// compare checks the server of a sale. It does not count as a call about the sale.
func (g *Inventory) compare(ctx context.Context, id string, epoch int64) {
	words, err := g.call(ctx, &g.scripts.count, g.parts(id), []string{itoa(epoch), g.clock(), "0"})
	switch {
	case errors.Is(err, errDamaged):
		g.forsake(ctx, id, epoch)
	case err == nil && words[0] == "stale" && len(words) == 2:
		g.stale("watch", id, epoch, words[1])
	}
}
