package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A shelf is the sales that buyers see, of which some have ended.
type shelf struct {
	sales []sale.Sale
}

// shelved is how many sales that have ended are looked at, the newest.
const shelved = 100

// lister follows the sales that the Ledger has.
func (s *Shop) lister(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.look:
		}
		s.list(ctx, n%int(listEvery/refreshEvery) == 0)
	}
}

// list asks the Ledger once for the sales that are live and, with all, for those that
// buyers see.
func (s *Shop) list(ctx context.Context, all bool) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	rows, err := s.Ledger.LiveSales(ctx)
	if err != nil {
		s.tally.ledgerAway.Add(1)
		return
	}
	seen := make(map[string]bool, len(rows))
	for _, row := range rows {
		seen[row.ID] = true
		s.keepSale(row)
	}
	// What is live here and not there has ended, or ends.
	for id := range *s.open.Load() {
		if !seen[id] {
			if row, err := s.Ledger.Sale(ctx, id); err == nil {
				s.keepSale(row)
			}
		}
	}
	if !all {
		return
	}
	shown, err := s.Ledger.Sales(ctx, "", "")
	if err != nil {
		return
	}
	before := s.shelf.Load()
	s.shelf.Store(&shelf{shown})
	for _, row := range shown[:min(shelved, len(shown))] {
		// One that ended without this shop may have left entries in its stream.
		if row.State == sale.Ended && (*s.open.Load())[row.ID] == nil &&
			!slices.ContainsFunc(before.sales, func(b sale.Sale) bool { return b.ID == row.ID && b.State == sale.Ended }) {
			s.keepSale(row)
		}
	}
}

// keepSale notes what the Ledger says of a sale, and begins to keep one that is new.
func (s *Shop) keepSale(row sale.Sale) *live {
	if row.State == sale.Drafted {
		return nil
	}
	s.mu.Lock()
	w := *s.open.Load()
	if l := w[row.ID]; l != nil {
		s.mu.Unlock()
		l.setSale(row)
		return l
	}
	l := newLive(row, &s.gateTime)
	next := maps.Clone(w)
	next[row.ID] = l
	s.open.Store(&next)
	s.mu.Unlock()
	s.run(func(ctx context.Context) { s.keeper(ctx, l) })
	s.run(func(ctx context.Context) { s.usher(ctx, l) })
	return l
}

// finish stops keeping a sale.
func (s *Shop) finish(l *live) {
	s.mu.Lock()
	next := maps.Clone(*s.open.Load())
	delete(next, l.id)
	s.open.Store(&next)
	sh := s.shelf.Load()
	if i := slices.IndexFunc(sh.sales, func(b sale.Sale) bool { return b.ID == l.id }); i >= 0 {
		sales := slices.Clone(sh.sales)
		sales[i] = l.snap.Load().sale
		s.shelf.Store(&shelf{sales})
	} else {
		s.shelf.Store(&shelf{append([]sale.Sale{l.snap.Load().sale}, sh.sales...)})
	}
	s.mu.Unlock()
	close(l.gone)
}

// over is what answers about a sale that is not kept are made from.
func (s *Shop) over(row sale.Sale) *snapshot { return &snapshot{sale: row, gate: &s.gateTime} }

func (s *Shop) live(id string) *live { return (*s.open.Load())[id] }

// saleOf returns a sale that buyers see, from memory if it can.
func (s *Shop) saleOf(ctx context.Context, id string) (*snapshot, error) {
	if l := s.live(id); l != nil {
		return l.snap.Load(), nil
	}
	for _, row := range s.shelf.Load().sales {
		if row.ID == id && row.State == sale.Ended {
			return s.over(row), nil
		}
	}
	row, err := s.other.get(s.Clock(), id, func() (sale.Sale, error) {
		ctx, cancel := s.within(ctx)
		defer cancel()
		return s.Ledger.Sale(ctx, id)
	})
	if err == nil && row.State == sale.Drafted {
		err = sale.ErrNotFound
	}
	if err != nil {
		return nil, away("sale", err)
	}
	if row.State != sale.Ended {
		return s.keepSale(row).snap.Load(), nil // it was exposed a moment ago
	}
	return s.over(row), nil
}

// List implements sale.BuyerService.
func (s *Shop) List(context.Context) ([]sale.View, error) {
	clock := s.Clock()
	w := *s.open.Load()
	views := make([]sale.View, 0, len(w))
	for _, l := range w {
		views = append(views, l.snap.Load().view(clock))
	}
	for _, row := range s.shelf.Load().sales {
		if w[row.ID] == nil && row.State == sale.Ended {
			views = append(views, s.over(row).view(clock))
		}
	}
	over := func(v sale.View) int {
		if v.Phase == sale.PhaseEnded {
			return 1
		}
		return 0
	}
	slices.SortFunc(views, func(a, b sale.View) int {
		if c := cmp.Compare(over(a), over(b)); c != 0 {
			return c
		}
		byStart := a.Sale.StartsAt.Compare(b.Sale.StartsAt)
		if over(a) == 1 {
			byStart = -byStart
		}
		return cmp.Or(byStart, cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
	return views, nil
}

// View implements sale.BuyerService.
func (s *Shop) View(ctx context.Context, id string) (sale.View, error) {
	p, err := s.saleOf(ctx, id)
	if err != nil {
		return sale.View{}, err
	}
	return p.view(s.Clock()), nil
}

// A cache remembers for a second what the Ledger said of sales that are not kept, also that
// there is none. It is bounded, so that who asks for names that are none cannot make it grow;
// and so is how often it asks, as it is asked before any limit of the asker.
type cache struct {
	mu    sync.Mutex
	rows  map[string]cached
	since time.Time
	asked int // since then
}

type cached struct {
	row  sale.Sale
	none bool
	at   time.Time
}

const (
	cacheSize = 1024
	cacheFor  = time.Second
	cacheAsks = 50 // in each cacheFor
)

// may reports whether the Ledger may be asked once more at now. It requires mu.
func (c *cache) may(now time.Time) bool {
	if age := now.Sub(c.since); age < 0 || age >= cacheFor {
		c.since, c.asked = now, 0
	}
	c.asked++
	return c.asked <= cacheAsks
}

func (c *cache) get(now time.Time, id string, ask func() (sale.Sale, error)) (sale.Sale, error) {
	if len(id) > 64 {
		return sale.Sale{}, sale.ErrNotFound
	}
	c.mu.Lock()
	e, ok := c.rows[id]
	if age := now.Sub(e.at); ok && age >= 0 && age < cacheFor {
		c.mu.Unlock()
		if e.none {
			return sale.Sale{}, sale.ErrNotFound
		}
		return e.row, nil
	}
	may := c.may(now)
	c.mu.Unlock()
	if !may {
		return sale.Sale{}, fmt.Errorf("%w: too many ask for sales that are not known here", sale.ErrUnavailable)
	}
	row, err := ask()
	none := errors.Is(err, sale.ErrNotFound)
	if err != nil && !none {
		return sale.Sale{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows) >= cacheSize {
		c.rows = map[string]cached{}
	}
	c.rows[id] = cached{row, none, now}
	return row, err
}
