package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// maxEnded bounds how many of the latest sales are checked for entries left in the stream of an
// ended sale.
const maxEnded = 100

// catalog holds the sales that buyers see, and follows the ledger.
type catalog struct {
	*env
	start func(*liveSale) // starts the background work of a sale

	mu     sync.Mutex // serializes replacing sales and listed
	sales  atomic.Pointer[map[string]*liveSale]
	listed atomic.Pointer[[]sale.Sale] // what buyers see, by the ledger; some have ended
	others rowCache

	patrolled string // the last sale of patrol, which alone uses it
}

func newCatalog(e *env, start func(*liveSale)) *catalog {
	c := &catalog{env: e, start: start}
	c.sales.Store(&map[string]*liveSale{})
	c.listed.Store(&[]sale.Sale{})
	return c
}

// run refreshes the catalog until ctx ends.
func (c *catalog) run(ctx context.Context) {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all := n%int(patrolEvery/listEvery) == 0
		c.refresh(ctx, all)
		if all {
			c.patrol()
		}
	}
}

// patrol checks one sale after the other, in case its state was lost or changed unnoticed. It
// also follows the inventory's clock while no sale is busy.
func (c *catalog) patrol() {
	live := c.live()
	next, first := "", ""
	for id := range live {
		if id > c.patrolled && (next == "" || id < next) {
			next = id
		}
		if first == "" || id < first {
			first = id
		}
	}
	if c.patrolled = cmp.Or(next, first); c.patrolled != "" {
		signal(live[c.patrolled].syncNow)
	}
}

// refresh reads the live sales from the ledger and, with all, the sales that buyers see.
func (c *catalog) refresh(ctx context.Context, all bool) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	rows, err := c.ledger.LiveSales(ctx)
	if err != nil {
		c.stats.ledgerErrors.Add(1)
		return
	}
	seen := make(map[string]bool, len(rows))
	for _, row := range rows {
		seen[row.ID] = true
		c.set(row)
	}
	// A sale that is live here and not in the ledger has ended.
	for id := range c.live() {
		if !seen[id] {
			if row, err := c.ledger.Sale(ctx, id); err == nil {
				c.set(row)
			}
		}
	}
	if !all {
		return
	}
	shown, err := c.ledger.Sales(ctx, "", "")
	if err != nil {
		return
	}
	before := *c.listed.Load()
	c.listed.Store(&shown)
	for _, row := range shown[:min(maxEnded, len(shown))] {
		// A sale that another process ended may have entries left in its stream.
		if row.State == sale.Ended && c.get(row.ID) == nil &&
			!slices.ContainsFunc(before, func(b sale.Sale) bool { return b.ID == row.ID && b.State == sale.Ended }) {
			c.set(row)
		}
	}
}

// set stores a row of the ledger. It starts the background work of a sale that is new, and
// returns nil for a draft.
func (c *catalog) set(row sale.Sale) *liveSale {
	if row.State == sale.Drafted {
		return nil
	}
	c.mu.Lock()
	sales := c.live()
	if l := sales[row.ID]; l != nil {
		c.mu.Unlock()
		if l.setSale(row) || l.isBusy(c.uptime()) {
			signal(l.syncNow)
		}
		return l
	}
	l := newLiveSale(row, &c.inventoryTime)
	next := maps.Clone(sales)
	next[row.ID] = l
	c.sales.Store(&next)
	c.mu.Unlock()
	c.start(l)
	return l
}

// finish removes a sale that has no more work, and ends its background work.
func (c *catalog) finish(l *liveSale) {
	c.mu.Lock()
	next := maps.Clone(c.live())
	delete(next, l.id)
	c.sales.Store(&next)
	listed := *c.listed.Load()
	row := l.snapshot.Load().sale
	if i := slices.IndexFunc(listed, func(b sale.Sale) bool { return b.ID == l.id }); i >= 0 {
		listed = slices.Clone(listed)
		listed[i] = row
	} else {
		listed = append([]sale.Sale{row}, listed...)
	}
	c.listed.Store(&listed)
	c.mu.Unlock()
	close(l.finished)
}

// live returns the live sales by ID. The map is never changed.
func (c *catalog) live() map[string]*liveSale { return *c.sales.Load() }

// get returns a live sale, or nil.
func (c *catalog) get(id string) *liveSale { return c.live()[id] }

// ended returns a snapshot of a sale that is not live.
func (c *catalog) ended(row sale.Sale) *snapshot {
	return &snapshot{sale: row, clock: &c.inventoryTime}
}

// find returns a sale that buyers see, from memory if possible.
func (c *catalog) find(ctx context.Context, id string) (*snapshot, error) {
	if l := c.get(id); l != nil {
		return l.snapshot.Load(), nil
	}
	for _, row := range *c.listed.Load() {
		if row.ID == id && row.State == sale.Ended {
			return c.ended(row), nil
		}
	}
	row, err := c.others.get(c.clock(), id, func() (sale.Sale, error) {
		ctx, cancel := c.call(ctx)
		defer cancel()
		return c.ledger.Sale(ctx, id)
	})
	if err == nil && row.State == sale.Drafted {
		err = sale.ErrNotFound
	}
	if err != nil {
		return nil, wrap("sale", err)
	}
	if row.State != sale.Ended {
		return c.set(row).snapshot.Load(), nil // it was exposed a moment ago
	}
	return c.ended(row), nil
}

// snapshots returns all sales that buyers see.
func (c *catalog) snapshots() []*snapshot {
	live := c.live()
	all := make([]*snapshot, 0, len(live))
	for _, l := range live {
		all = append(all, l.snapshot.Load())
	}
	for _, row := range *c.listed.Load() {
		if live[row.ID] == nil && row.State == sale.Ended {
			all = append(all, c.ended(row))
		}
	}
	return all
}

// rowCache caches for a second what the ledger returned for sales that are not live, also that
// there is no such sale. Its size and its rate of queries are bounded, because requests reach
// it before any limit per client.
type rowCache struct {
	mu      sync.Mutex
	rows    map[string]cachedRow
	since   time.Time
	queries int // since then
}

type cachedRow struct {
	row     sale.Sale
	missing bool
	at      time.Time
}

const (
	cacheSize    = 1024
	cacheFor     = time.Second
	cacheQueries = 50 // per cacheFor
)

// allow reports whether the ledger may be queried once more. It requires mu.
func (c *rowCache) allow(now time.Time) bool {
	if age := now.Sub(c.since); age < 0 || age >= cacheFor {
		c.since, c.queries = now, 0
	}
	c.queries++
	return c.queries <= cacheQueries
}

func (c *rowCache) get(now time.Time, id string, query func() (sale.Sale, error)) (sale.Sale, error) {
	if len(id) > 64 {
		return sale.Sale{}, sale.ErrNotFound
	}
	c.mu.Lock()
	e, ok := c.rows[id]
	if age := now.Sub(e.at); ok && age >= 0 && age < cacheFor {
		c.mu.Unlock()
		if e.missing {
			return sale.Sale{}, sale.ErrNotFound
		}
		return e.row, nil
	}
	allowed := c.allow(now)
	c.mu.Unlock()
	if !allowed {
		return sale.Sale{}, fmt.Errorf("%w: too many requests for unknown sales", sale.ErrUnavailable)
	}
	row, err := query()
	missing := errors.Is(err, sale.ErrNotFound)
	if err != nil && !missing {
		return sale.Sale{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows) >= cacheSize {
		c.rows = map[string]cachedRow{}
	}
	c.rows[id] = cachedRow{row, missing, now}
	return row, err
}
