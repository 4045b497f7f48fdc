package shop

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A window is the sales that this shop keeps, by ID. It is never changed, but replaced.
type window map[string]*live

// A live sale is exposed or paused, or has ended and is not finished yet.
type live struct {
	id   string
	snap atomic.Pointer[snapshot]

	mu    sync.Mutex // of making the next snapshot
	acked map[string]acked
	used  used

	kept chan struct{} // of the keeper: look now
	wake chan struct{} // of the usher
	gone chan struct{} // closed when it is finished

	joined  atomic.Int64 // since the usher looked
	turned  atomic.Uint64
	busy    atomic.Int64 // clerks that are at it
	barred  atomic.Int64 // above 0: clerks keep off: it is being recovered
	drained atomic.Int64 // the epoch whose stream is read to its end, of an Inventory that is closed
}

// acked is a reservation that this shop acknowledged, and has not seen as an order.
type acked struct {
	sale.Reservation
	seen time.Time
}

// used is the tokens of an epoch that are not out any more and whose slots are not returned
// yet: until when each was valid.
type used struct {
	epoch int64
	until []time.Time
}

// maxAcked bounds what is remembered of each sale.
const maxAcked = 100_000

// A snapshot is what answers are made from. It is never changed.
type snapshot struct {
	sale   sale.Sale
	counts sale.Counts
	have   bool      // counts are those of the sale's epoch
	at     time.Time // when counts were taken, by the shop's clock
	gate   *gateTime // to go by while there are none
}

func newLive(row sale.Sale, gate *gateTime) *live {
	l := &live{id: row.ID, acked: map[string]acked{},
		kept: make(chan struct{}, 1), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	l.snap.Store(&snapshot{sale: row, gate: gate})
	return l
}

// setSale notes what the Ledger said of the sale, unless something newer is known. While the
// Ledger is slow that may be old: units and payments are never fewer than the Inventory knows.
func (l *live) setSale(row sale.Sale) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.snap.Load()
	if row.Version < old.sale.Version || row.Epoch < old.sale.Epoch {
		return
	}
	next := *old
	next.sale = row
	next.sale.Stock, next.sale.Paid = max(row.Stock, old.sale.Stock), max(row.Paid, old.sale.Paid)
	next.have = old.have && row.Epoch == old.sale.Epoch
	l.snap.Store(&next)
}

// setPaid notes that at least so many units are paid.
func (l *live) setPaid(units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.snap.Load()
	next.sale.Paid = max(next.sale.Paid, units)
	l.snap.Store(&next)
}

// setCounts notes what the Inventory counted at an epoch; have is false if it had no state.
func (l *live) setCounts(epoch int64, c sale.Counts, have bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.snap.Load()
	if epoch != old.sale.Epoch {
		return
	}
	next := *old
	if next.have = have; have {
		next.counts, next.at = c, at
		next.sale.Stock, next.sale.Paid = max(next.sale.Stock, c.Stock), max(next.sale.Paid, c.Paid)
	}
	l.snap.Store(&next)
}

// now is the time of the sale: the Inventory's clock when it was counted last, and what has
// passed since by the shop's clock. So a step of the shop's clock moves it by no more than a
// second, and only until the next count. Of a sale whose Inventory is gone it is what the Inventories of
// others say.
func (p *snapshot) now(clock time.Time) time.Time {
	passed := max(0, clock.Sub(p.at))
	switch {
	case p.counts.Now.IsZero(), passed > time.Second && !p.have:
		return p.gate.now(clock)
	case passed > time.Second:
		passed = time.Second
	}
	return p.counts.Now.Add(passed)
}

// free is how many units are free, as far as is known.
func (p *snapshot) free() int64 {
	if p.have {
		return p.counts.Free
	}
	return max(0, p.sale.Stock-p.sale.Sold)
}

func (p *snapshot) view(clock time.Time) sale.View {
	now := p.now(clock)
	v := sale.View{Sale: p.sale, Now: now, Free: p.free(), Phase: p.sale.PhaseAt(now, p.free()), Poll: pollOf(p.counts.Waiting)}
	if p.have {
		v.Waiting = p.counts.Waiting
	}
	return v
}

// remember notes a reservation that was acknowledged.
func (l *live) remember(r sale.Reservation, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.acked) < maxAcked {
		l.acked[r.ID] = acked{r, now}
	}
}

// use notes that a token of an epoch is not out any more. Those of another epoch than the
// latest have no slots.
func (l *live) use(epoch int64, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch > l.used.epoch {
		l.used = used{epoch: epoch}
	}
	if epoch == l.used.epoch && len(l.used.until) < maxTokens {
		l.used.until = append(l.used.until, until)
	}
}

// takeUsed returns how many slots of an epoch are to be returned, and forgets them. One that
// comes free by itself about now is not among them.
func (l *live) takeUsed(epoch int64, now time.Time) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.used.epoch {
		return 0
	}
	for _, until := range l.used.until {
		if until.Sub(now) > refreshEvery {
			n++
		}
	}
	l.used.until = l.used.until[:0]
	return n
}

// settled forgets reservations whose end is known.
func (l *live) settled(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.acked, id)
	}
}

// unsettled returns up to max reservations that were acknowledged before an instant, or in
// an epoch before the given one.
func (l *live) unsettled(before time.Time, epoch int64, max int) []sale.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rs []sale.Reservation
	for _, a := range l.acked {
		if len(rs) == max {
			break
		}
		if a.seen.Before(before) || a.Epoch < epoch {
			rs = append(rs, a.Reservation)
		}
	}
	return rs
}
