package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// inventorySync refreshes the snapshot of one sale and makes the inventory follow the ledger:
// its pause, its stock, its end, and its whole state after the inventory has lost it.
type inventorySync struct {
	*env
	catalog  *catalog
	finder   *orderFinder
	recovery *recovery
	sale     *liveSale

	stale      int // consecutive reads without a state
	drift      drift
	checkedAt  time.Time  // when finishing the sale was tried last
	paymentsAt time.Time  // when pending payments were read last
	settledAt  time.Time  // when old acknowledged reservations were looked up last
	terms      sale.Terms // that the inventory has at termsEpoch
	termsEpoch int64
	drained    bool // the streams of earlier epochs are drained
	counted    bool // in env.busy
}

// minStale is the number of consecutive reads without a state after which the inventory is
// recovered.
const minStale = 3

// staleLimit is minStale, or ten times as many reads for two kinds of sales. While a sale is
// paused by its merchant, a running recovery does not show. A sale at epoch 1 without counts
// may have been exposed a moment ago.
func staleLimit(p *snapshot) int {
	if p.sale.State == sale.Paused || p.sale.Epoch == 1 && p.counts.Now.IsZero() {
		return 10 * minStale
	}
	return minStale
}

func (s *inventorySync) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	defer func() {
		if s.counted {
			s.busy.Add(-1)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sale.finished:
			return
		case <-next.C:
		case <-s.sale.syncNow:
		}
		s.sync(ctx)
		next.Reset(s.pause())
	}
}

func (s *inventorySync) sync(ctx context.Context) {
	row := s.sale.snapshot.Load().sale
	c, err := s.count(ctx, s.sale.id, row.Epoch)
	switch {
	case errors.Is(err, sale.ErrStale):
		s.sale.setCounts(row.Epoch, c, false, s.clock())
		s.stale++
	case err != nil:
		s.stats.inventoryErrors.Add(1)
		return
	default:
		s.sale.setCounts(row.Epoch, c, true, s.clock())
		s.stale = 0
		if c.Backlog > 0 {
			s.streams.add(s.sale)
		}
	}
	p := s.sale.snapshot.Load()
	if p.sale.Epoch != row.Epoch {
		return // another process has recovered the sale: the next run reads its counts
	}
	s.settle(ctx, p)
	s.readPayments(ctx, p)
	switch {
	case p.sale.State == sale.Ended:
		s.finish(ctx, p)
	case !p.counted && (s.stale >= staleLimit(p) || p.sale.StateReason == sale.Recovering), p.counted && p.isRecovering():
		// In the second case the inventory is open and the ledger does not know it.
		if s.recovery.run(ctx) {
			s.stale, s.drift = 0, drift{}
		}
	case !p.counted:
	case !p.counts.Now.Before(p.sale.EndsAt):
		s.end(ctx)
	default:
		s.apply(ctx, p)
		if s.drift.observe(p) && s.confirmDrift(ctx, p) {
			s.rebuild(ctx, p)
		}
	}
}

func (s *inventorySync) rebuild(ctx context.Context, p *snapshot) {
	s.log.Warn("inventory and ledger differ, rebuilding the inventory", "sale", s.sale.id,
		"reserved", p.counts.Reserved, "sold", p.sale.Sold, "free", p.counts.Free)
	done, err := s.recovery.rebuild(ctx, p.sale)
	if err != nil {
		s.log.Warn("cannot rebuild inventory, will retry", "sale", s.sale.id, "error", err)
	}
	if done {
		s.stale, s.drift = 0, drift{}
	}
}

// apply sets the pause, the terms, the stock and the payments of the inventory to those of the
// ledger.
func (s *inventorySync) apply(ctx context.Context, p *snapshot) {
	s.markSoldOut(ctx, p)
	paused := p.sale.State != sale.Exposed
	s.setTerms(ctx, p)
	if p.counts.Paused == paused && p.counts.Stock >= p.sale.Stock {
		return
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	// The snapshot may be older than what a merchant has just done.
	row, err := s.ledger.Sale(ctx, s.sale.id)
	if err != nil || row.Epoch != p.sale.Epoch {
		return
	}
	s.sale.setSale(row)
	s.follow(ctx, row)
}

// setTerms sets the terms of the inventory to those of the ledger. The inventory does not report
// its terms, so each version is set once. An inventory ignores terms that are older than its own.
func (s *inventorySync) setTerms(ctx context.Context, p *snapshot) {
	terms := p.sale.Terms()
	if terms == s.terms && p.sale.Epoch == s.termsEpoch {
		return
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	if err := s.inventory.SetTerms(ctx, s.sale.id, p.sale.Epoch, terms); err != nil {
		s.log.Warn("cannot set terms of inventory, will retry", "sale", s.sale.id, "error", err)
		return
	}
	s.terms, s.termsEpoch = terms, p.sale.Epoch
}

// markSoldOut marks the sale as sold out in the inventory, if the process that took the last
// payment could not.
func (s *inventorySync) markSoldOut(ctx context.Context, p *snapshot) {
	if p.sale.Paid < p.sale.Stock || p.counts.Paid >= p.sale.Paid {
		return
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	row, err := s.ledger.Sale(ctx, s.sale.id) // the snapshot may be from before a refund
	if err != nil {
		return
	}
	s.sale.setSale(row)
	if row.Epoch != p.sale.Epoch || row.Paid < row.Stock {
		return
	}
	if err := s.inventory.SetPaid(ctx, s.sale.id, row.Epoch, row.Paid); err != nil {
		s.log.Warn("cannot mark sale as sold out, will retry", "sale", s.sale.id, "error", err)
	}
}

// end ends the sale in the ledger after EndsAt by the inventory's clock.
func (s *inventorySync) end(ctx context.Context) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	row, err := s.ledger.Sale(ctx, s.sale.id)
	if err == nil && row.State != sale.Ended && row.EndsAt.After(s.sale.snapshot.Load().sale.EndsAt) {
		s.sale.setSale(row) // it was edited
		signal(s.sale.syncNow)
		return
	}
	row, err = s.ledger.SetState(ctx, "flashsale", s.sale.id, sale.Ended, sale.ByMerchant, s.clock(), sale.Exposed, sale.Paused)
	switch {
	case errors.Is(err, sale.ErrConflict):
		if row, err = s.ledger.Sale(ctx, s.sale.id); err == nil {
			s.sale.setSale(row)
		}
	case err != nil:
		s.log.Warn("cannot end sale in ledger, will retry", "sale", s.sale.id, "error", err)
	default:
		s.sale.setSale(row)
		s.log.Info("sale ended", "sale", s.sale.id)
	}
}

// finish removes a sale that has ended, when its stream is empty and none of its orders is
// pending.
func (s *inventorySync) finish(ctx context.Context, p *snapshot) {
	if p.counted && !p.counts.Paused {
		ctx, cancel := s.call(ctx)
		defer cancel()
		if err := s.inventory.SetPaused(ctx, s.sale.id, p.sale.Epoch, true); err != nil {
			return
		}
		signal(s.sale.syncNow)
		return
	}
	now := s.clock()
	if age := now.Sub(s.checkedAt); age >= 0 && age < listEvery {
		return
	}
	s.checkedAt = now
	if !p.counted && !s.drained {
		// A recovery may have been interrupted: earlier streams may have entries.
		if s.recovery.drain(ctx, p.sale.Epoch) != nil {
			return
		}
		s.drained = true
	}
	if p.counted && p.counts.Backlog > 0 {
		return
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	t, err := s.ledger.Totals(ctx, s.sale.id)
	if err != nil || t.Pending > 0 {
		return
	}
	if p.counted {
		err := s.inventory.Delete(ctx, s.sale.id, p.sale.Epoch)
		if err != nil && !errors.Is(err, sale.ErrStale) {
			return
		}
	}
	s.sale.setSale(t.Sale)
	s.catalog.finish(s.sale)
	s.log.Info("sale finished", "sale", s.sale.id, "sold", t.Sale.Sold, "stock", t.Sale.Stock)
}

// settle looks up acknowledged reservations that no order writer of this process has seen.
// Those of an earlier epoch that are not orders are transferred or lost, because the ledger
// does not accept them any more. For most that were acknowledged a while ago, other processes
// have written the orders. settle takes about a refresh period at most.
func (s *inventorySync) settle(ctx context.Context, p *snapshot) {
	began := time.Now()
	if p.counted {
		s.finder.settleEarlier(ctx, s.sale, p.sale.Epoch, refreshEvery/2)
	}
	now := s.clock()
	if age := now.Sub(s.settledAt); age >= 0 && age < listEvery {
		return
	}
	s.settledAt = now
	for _, r := range s.sale.unsettled(now.Add(-30*time.Second), 0, 50) {
		if _, err := s.finder.outcome(ctx, r); err != nil || time.Since(began) > refreshEvery/2 {
			return
		}
	}
}

// confirmDrift reads both sides again and reports whether they still differ as in p. The
// snapshot's row is old while the ledger is unavailable.
func (s *inventorySync) confirmDrift(ctx context.Context, p *snapshot) bool {
	row, err := s.recovery.row(ctx)
	if err != nil || row.Epoch != p.sale.Epoch {
		return false
	}
	s.sale.setSale(row)
	c, err := s.count(ctx, s.sale.id, row.Epoch)
	return err == nil && c.Backlog == 0 && c.Reserved == p.counts.Reserved && row.Sold == p.sale.Sold
}

// drift detects a permanent difference between the units reserved in the inventory and the
// units sold in the ledger: the stream is empty and neither number changes.
type drift struct {
	reserved, sold, free int64
	epoch                int64
	times                int
}

// driftReads is the number of equal reads after which a difference counts as permanent.
const driftReads = 50

func (d *drift) observe(p *snapshot) bool {
	c, s := &p.counts, &p.sale
	same := d.reserved == c.Reserved && d.sold == s.Sold && d.free == c.Free && d.epoch == s.Epoch
	if c.Backlog != 0 || c.Reserved == s.Sold || !same {
		*d = drift{c.Reserved, s.Sold, c.Free, s.Epoch, 0}
		return false
	}
	d.times++
	if d.times < driftReads {
		return false
	}
	d.times = 0
	return true
}
