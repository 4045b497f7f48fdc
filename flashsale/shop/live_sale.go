package shop

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/estimate"
	"github.com/floodweir/weir/flashsale/sale"
)

// liveSale is a sale that is exposed or paused, or that has ended and still has work to do.
type liveSale struct {
	id       string
	snapshot atomic.Pointer[snapshot]

	mu           sync.Mutex // guards the next four, and making the next snapshot
	acknowledged map[string]acknowledged
	usedTokens   usedTokens
	estimator    estimate.Estimator
	payments     pendingPayments

	syncNow  chan struct{} // wakes the inventorySync
	slotsNow chan struct{} // wakes the slotReturner
	finished chan struct{} // closed when the sale has no more work

	repairedAt atomic.Int64 // when an order writer began a recovery last, in ms
	touched    atomic.Int64 // env.uptime of the last request about the sale
	admitted   atomic.Int64 // tickets that this process admitted and that are in no sample of the curves
}

// acknowledged is a reservation that this process has acknowledged to a buyer and that it has
// not seen as an order.
type acknowledged struct {
	sale.Reservation
	seen time.Time
}

// usedTokens lists the expiry times of tokens of an epoch that were used and whose slots are
// not returned yet.
type usedTokens struct {
	epoch int64
	until []time.Time
}

// maxAcknowledged bounds liveSale.acknowledged.
const maxAcknowledged = 100_000

// snapshot holds the data from which a Shop answers. It is immutable.
type snapshot struct {
	sale    sale.Sale
	paid    int64 // paid units by the ledger, at least; sale.Paid has also those of counts
	counts  sale.Counts
	counted bool            // counts are of the sale's epoch
	at      time.Time       // the own clock when counts were read
	clock   *inventoryClock // used while there are no counts
}

func newLiveSale(row sale.Sale, clock *inventoryClock) *liveSale {
	l := &liveSale{id: row.ID, acknowledged: map[string]acknowledged{},
		syncNow: make(chan struct{}, 1), slotsNow: make(chan struct{}, 1), finished: make(chan struct{})}
	l.snapshot.Store(&snapshot{sale: row, paid: row.Paid, clock: clock})
	l.touched.Store(int64(-busyFor)) // not yet
	return l
}

// setSale stores a row of the ledger, unless a newer one is known. A row may be old while the
// ledger is slow, so the units and payments that the inventory reports are a lower bound. Paid
// units become fewer only with a new version.
//
// It reports whether the terms of the sale have changed.
func (l *liveSale) setSale(row sale.Sale) (edited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.snapshot.Load()
	if row.Version < old.sale.Version || row.Epoch < old.sale.Epoch {
		return false
	}
	next := *old
	next.sale = row
	next.sale.Stock = max(row.Stock, old.sale.Stock)
	next.counted = old.counted && row.Epoch == old.sale.Epoch
	if next.paid = row.Paid; row.Version == old.sale.Version {
		next.paid = max(row.Paid, old.paid)
	}
	next.sale.Paid = next.paid
	if next.counted {
		next.sale.Paid = max(next.paid, next.counts.Paid)
	}
	l.snapshot.Store(&next)
	return row.Terms() != old.sale.Terms()
}

// setPaid raises the number of paid units to at least units.
func (l *liveSale) setPaid(units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.snapshot.Load()
	next.paid = max(next.paid, units)
	next.sale.Paid = max(next.sale.Paid, units)
	l.snapshot.Store(&next)
}

// setCounts stores the inventory's counts at an epoch; counted is false if it had no state.
func (l *liveSale) setCounts(epoch int64, c sale.Counts, counted bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.snapshot.Load()
	if epoch != old.sale.Epoch {
		return
	}
	next := *old
	if next.counted = counted; counted {
		next.counts, next.at = c, at
		next.sale.Stock, next.sale.Paid = max(next.sale.Stock, c.Stock), max(next.paid, c.Paid)
		l.observe(&next)
	}
	l.snapshot.Store(&next)
}

// now returns the time of the sale: the inventory's clock at the last count, plus the time
// since by the own clock. After a second it uses the inventory's clock as other sales report
// it, if that is later.
func (p *snapshot) now(own time.Time) time.Time {
	passed := max(0, own.Sub(p.at))
	if p.counts.Now.IsZero() {
		return p.clock.now(own)
	}
	now := p.counts.Now.Add(min(passed, time.Second))
	if passed > time.Second {
		if shared := p.clock.now(own); shared.After(now) || !p.counted {
			return shared
		}
	}
	return now
}

// free returns the number of free units, as far as it is known.
func (p *snapshot) free() int64 {
	if p.counted {
		return p.counts.Free
	}
	return max(0, p.sale.Stock-p.sale.Sold)
}

func (p *snapshot) view(own time.Time) sale.View {
	now := p.now(own)
	v := sale.View{Sale: p.sale, Now: now, Free: p.free(), Phase: p.sale.PhaseAt(now, p.free()), Poll: pollInterval(p.counts.Waiting)}
	if p.counted {
		v.Waiting = p.counts.Waiting
	}
	return v
}

// isRecovering reports whether the ledger has the sale paused for a recovery.
func (p *snapshot) isRecovering() bool {
	return p.sale.State == sale.Paused && p.sale.StateReason == sale.Recovering
}

// acknowledge remembers a reservation until it is settled. It reports whether there is room.
func (l *liveSale) acknowledge(r sale.Reservation, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.acknowledged) >= maxAcknowledged {
		return false
	}
	l.acknowledged[r.ID] = acknowledged{r, now}
	return true
}

// settle forgets reservations whose outcome is known.
func (l *liveSale) settle(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.acknowledged, id)
	}
}

// unsettled returns up to max reservations that were acknowledged before a time, or in an
// epoch before the given one, the oldest first.
func (l *liveSale) unsettled(before time.Time, epoch int64, max int) []sale.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rs []sale.Reservation
	for _, a := range l.acknowledged {
		if a.seen.Before(before) || a.Epoch < epoch {
			rs = append(rs, a.Reservation)
		}
	}
	slices.SortFunc(rs, func(a, b sale.Reservation) int { return a.At.Compare(b.At) })
	return rs[:min(max, len(rs))]
}

// unsettledOf returns the unsettled reservation that a ticket of a user has made, if any.
func (l *liveSale) unsettledOf(user, ticket string) (sale.Reservation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.acknowledged {
		if a.User == user && a.Ticket == ticket {
			return a.Reservation, true
		}
	}
	return sale.Reservation{}, false
}

// lag returns the age of the oldest unsettled reservation of this process.
func (l *liveSale) lag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest time.Time
	for _, a := range l.acknowledged {
		if oldest.IsZero() || a.At.Before(oldest) {
			oldest = a.At
		}
	}
	if oldest.IsZero() || now.Before(oldest) {
		return 0
	}
	return now.Sub(oldest)
}

// useToken records that a token is not outstanding any more. Slots exist for the latest epoch
// alone, so tokens of earlier epochs are ignored.
func (l *liveSale) useToken(epoch int64, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch > l.usedTokens.epoch {
		l.usedTokens = usedTokens{epoch: epoch}
	}
	if epoch == l.usedTokens.epoch && len(l.usedTokens.until) < maxTokens {
		l.usedTokens.until = append(l.usedTokens.until, until)
		signal(l.slotsNow)
	}
}

// takeUsedTokens returns how many slots of an epoch to return, and forgets their tokens. It
// leaves out slots that expire by themselves about now.
func (l *liveSale) takeUsedTokens(epoch int64, now time.Time) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch != l.usedTokens.epoch {
		return 0
	}
	for _, until := range l.usedTokens.until {
		if until.Sub(now) > refreshEvery {
			n++
		}
	}
	l.usedTokens.until = l.usedTokens.until[:0]
	return n
}
