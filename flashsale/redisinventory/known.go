package redisinventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/redis/rueidis"
)

// knownStates holds what this process has learned about the states of sales.
type knownStates struct {
	prefix string // of all keys
	log    *slog.Logger

	mu     sync.Mutex
	bySale map[string]*known
}

// known describes the state of a sale.
type known struct {
	keys    []string
	epoch   int64
	stale   bool      // the state at this epoch is gone
	seen    int64     // the latest time, in µs
	asked   time.Time // time of the last call, by the wall clock
	claimed time.Time // when this process looked for idle entries of other workers last
}

// kept bounds the checks of a sale after the last call about it.
const kept = 10 * time.Minute

// parts returns the names of the keys of a state, in the order in which scripts take them.
func (s *knownStates) parts(id string) []string {
	at := s.prefix + "{" + escape(id) + "}:"
	return []string{at + "state", at + "users", at + "line", at + "out", at + "res", at + "done", at + "stream", at + "seen"}
}

// recall returns the keys of a sale and its latest known time, or ErrStale if this process
// knows that the state is gone.
func (s *knownStates) recall(doing, id string, epoch int64) ([]string, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.bySale[id]
	switch {
	case k == nil:
		return s.parts(id), 0, nil
	case epoch < k.epoch || epoch == k.epoch && k.stale:
		return nil, 0, staleError(doing, id, epoch, "known")
	}
	return k.keys, k.seen, nil
}

// seen returns the latest time that this process knows of a sale.
func (s *knownStates) seen(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.bySale[id]; k != nil {
		return k.seen
	}
	return 0
}

// remember records a reply of a state.
func (s *knownStates) remember(id string, epoch int64, keys []string, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.bySale[id]
	if k == nil {
		k = &known{keys: keys}
		s.bySale[id] = k
	}
	if epoch > k.epoch {
		k.epoch, k.stale = epoch, false
	}
	k.seen = max(k.seen, now)
	k.asked = time.Now()
}

// opened records that this process has opened the state at an epoch, or found it open.
func (s *knownStates) opened(id string, epoch, now int64) {
	s.mu.Lock()
	if k := s.bySale[id]; k != nil && k.epoch != epoch {
		k.epoch, k.stale = epoch, false
	}
	s.mu.Unlock()
	s.remember(id, epoch, s.parts(id), now)
}

// claims reports whether this process looks for idle entries of a sale now, at most once in
// every.
func (s *knownStates) claims(id string, every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.bySale[id]
	if k == nil {
		return true
	}
	if time.Since(k.claimed) < every {
		return false
	}
	k.claimed = time.Now()
	return true
}

// forget removes a sale that was deleted.
func (s *knownStates) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bySale, id)
}

// lost records that a state is gone, if this process knew it, and returns the error.
func (s *knownStates) lost(doing, id string, epoch int64, why string) error {
	s.mu.Lock()
	k := s.bySale[id]
	first := k != nil && k.epoch == epoch && !k.stale
	if first {
		k.stale = true
	}
	s.mu.Unlock()
	if first {
		s.log.Warn("the state of a sale is gone", "sale", id, "epoch", epoch, "why", reasons(why))
	}
	return staleError(doing, id, epoch, why)
}

// watched returns the sales to check, and removes those without recent calls.
func (s *knownStates) watched() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sales := map[string]int64{}
	for id, k := range s.bySale {
		switch {
		case time.Since(k.asked) > kept:
			delete(s.bySale, id)
		case !k.stale:
			sales[id] = k.epoch
		}
	}
	return sales
}

func staleError(doing, id string, epoch int64, why string) error {
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
	g.states.lost("check", id, epoch, "damaged")
	// If this fails, the next call finds the same corruption.
	_ = g.Close(context.WithoutCancel(ctx), id, epoch)
}

// watch checks the replication IDs of the servers. If one has changed, it checks for each sale with
// recent calls that the server is the one on which the state was opened.
func (g *Inventory) watch(ctx context.Context) {
	defer close(g.done)
	tick := time.NewTicker(g.cfg.Watch)
	defer tick.Stop()
	var last time.Time
	servers := map[string]string{} // replication IDs by address
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
		changed := serversChanged(ctx, g.client, g.cfg.Deadline, servers)
		// After the reading: a sale that is opened later has the server of that time.
		sales := g.states.watched() // forgets those without recent calls
		if changed && !compareAll(ctx, g, sales) {
			clear(servers) // compare again
		}
	}
}

// serversChanged reads the replication IDs of all nodes, and reports whether one differs from
// that in servers, or is not in it. It updates servers. A node without a reply is left as it is.
func serversChanged(ctx context.Context, client rueidis.Client, deadline time.Duration, servers map[string]string) (changed bool) {
	for addr, node := range client.Nodes() {
		call, cancel := context.WithTimeout(ctx, deadline)
		info, err := node.Do(call, node.B().Info().Section("replication").Build()).ToString()
		cancel()
		if err != nil {
			continue
		}
		_, id, _ := strings.Cut(info, "master_replid:")
		id, _, _ = strings.Cut(id, "\r")
		changed = changed || servers[addr] != id
		servers[addr] = id
	}
	return changed
}

// compareAll checks the server of each of these sales, and reports whether all replied.
func compareAll(ctx context.Context, g *Inventory, sales map[string]int64) bool {
	var wg sync.WaitGroup
	var failed atomic.Bool
	slots := make(chan struct{}, 16)
	for id, epoch := range sales {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := compare(ctx, g, id, epoch); err != nil {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	return !failed.Load()
}

// compare checks the server of a sale. It does not count as a call about the sale. An error means
// that the server did not reply.
func compare(ctx context.Context, g *Inventory, id string, epoch int64) error {
	words, err := g.call(ctx, &g.scripts.count, g.states.parts(id), []string{itoa(epoch), g.clock(), "0"})
	switch {
	case errors.Is(err, errDamaged):
		g.forsake(ctx, id, epoch)
		return nil
	case err == nil && words[0] == "stale" && len(words) == 2:
		g.states.lost("watch", id, epoch, words[1])
	}
	return err
}
