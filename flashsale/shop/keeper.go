package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A keeper makes the snapshots of a sale, and makes the Inventory follow the Ledger: its pause,
// its units, its end, and its whole state when the Inventory has lost it.
type keeper struct {
	*Shop
	*live
	stale int // how often in a row the Inventory had no state
	drift drift
	asked time.Time // when the Ledger was asked whether all is over
	swept time.Time // when acknowledged reservations were looked after
	old   bool      // streams of earlier epochs are read to their end
}

// staleEnough is how often in a row the Inventory has to be without a state before it is built
// again.
const staleEnough = 3

// staleFor is how often in a row. Of a sale that is paused by its merchant it is not seen
// whether somebody recovers it already, and one that nobody has seen at the Inventory may have
// been exposed a moment ago: more patience is had with them.
func staleFor(p *snapshot) int {
	if p.sale.State == sale.Paused || p.sale.Epoch == 1 && p.counts.Now.IsZero() {
		return 10 * staleEnough
	}
	return staleEnough
}

func (s *Shop) keeper(ctx context.Context, l *live) {
	k := &keeper{Shop: s, live: l}
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		k.keep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-l.gone:
			return
		case <-tick.C:
		case <-l.kept:
		}
	}
}

func (k *keeper) keep(ctx context.Context) {
	row := k.snap.Load().sale
	c, err := k.count(ctx, row.Epoch)
	switch {
	case errors.Is(err, sale.ErrStale):
		k.setCounts(row.Epoch, c, false, k.Clock())
		k.stale++
	case err != nil:
		k.tally.gateAway.Add(1)
		return
	default:
		k.setCounts(row.Epoch, c, true, k.Clock())
		k.stale = 0
	}
	p := k.snap.Load()
	if p.sale.Epoch != row.Epoch {
		return // recovered elsewhere meanwhile: counted at the next look
	}
	k.account(ctx, p)
	switch {
	case p.sale.State == sale.Ended:
		k.windUp(ctx, p)
	case !p.have && (k.stale >= staleFor(p) || p.sale.StateReason == sale.Recovering):
		k.recover(ctx)
	case !p.have:
	case p.sale.StateReason == sale.Recovering && p.sale.State == sale.Paused:
		k.recover(ctx) // the Inventory is open, and the Ledger does not know
	case !p.counts.Now.Before(p.sale.EndsAt):
		k.endInTime(ctx, p)
	default:
		k.follow(ctx, p)
		if k.drift.seen(p) && k.differ(ctx, p) {
			k.Log.Warn("inventory and ledger disagree: the inventory is built again", "sale", k.id,
				"reserved", p.counts.Reserved, "sold", p.sale.Sold, "free", p.counts.Free)
			if err := k.buildAgain(ctx, p.sale); err != nil {
				k.Log.Warn("inventory not built again; it is tried again", "sale", k.id, "error", err)
			}
		}
	}
}

func (s *Shop) count(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	c, err := s.Inventory.Counts(ctx, id, epoch)
	if err == nil {
		s.gateTime.note(c.Now, s.Clock())
	}
	return c, err
}

func (k *keeper) count(ctx context.Context, epoch int64) (sale.Counts, error) {
	return k.Shop.count(ctx, k.id, epoch)
}

// tellPaid tells the Inventory of a sale that is sold out that it is, if who took the last payment
// could not.
func (k *keeper) tellPaid(ctx context.Context, p *snapshot) {
	if p.sale.Paid < p.sale.Stock || p.counts.Paid >= p.sale.Paid {
		return
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	if err := k.Inventory.SetPaid(ctx, k.id, p.sale.Epoch, p.sale.Paid); err != nil {
		k.Log.Warn("inventory not told that all is paid; it is tried again", "sale", k.id, "error", err)
	}
}

// follow makes the Inventory's pause and units those of the Ledger.
func (k *keeper) follow(ctx context.Context, p *snapshot) {
	k.tellPaid(ctx, p)
	paused := p.sale.State != sale.Exposed
	if p.counts.Paused == paused && p.counts.Stock >= p.sale.Stock {
		return
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	// What is known may be older than what a merchant has just done.
	row, err := k.Ledger.Sale(ctx, k.id)
	if err != nil || row.Epoch != p.sale.Epoch {
		return
	}
	k.setSale(row)
	k.gateFollows(ctx, row)
}

// gateFollows makes the Inventory's pause and units those of row.
func (s *Shop) gateFollows(ctx context.Context, row sale.Sale) {
	if err := s.Inventory.SetPaused(ctx, row.ID, row.Epoch, row.State != sale.Exposed); err != nil {
		s.Log.Warn("inventory not paused or resumed; it is tried again", "sale", row.ID, "error", err)
		return
	}
	// Fewer than it has is refused: then somebody else has added units since.
	err := s.Inventory.SetStock(ctx, row.ID, row.Epoch, row.Stock)
	if err != nil && !errors.Is(err, sale.ErrInvalid) {
		s.Log.Warn("units not added to the inventory; it is tried again", "sale", row.ID, "error", err)
	}
}

// endInTime ends a sale whose time is over, by the Inventory's clock.
func (k *keeper) endInTime(ctx context.Context, p *snapshot) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	row, err := k.Ledger.SetState(ctx, "flashsale", k.id, sale.Ended, sale.ByMerchant, k.Clock(), sale.Exposed, sale.Paused)
	switch {
	case errors.Is(err, sale.ErrConflict):
		if row, err = k.Ledger.Sale(ctx, k.id); err == nil {
			k.setSale(row)
		}
	case err != nil:
		k.Log.Warn("sale not ended in the ledger; it is tried again", "sale", k.id, "error", err)
	default:
		k.setSale(row)
		k.Log.Info("sale ended", "sale", k.id)
	}
}

// windUp lets go of a sale that has ended when its stream is empty and its orders are all
// paid, expired or cancelled.
func (k *keeper) windUp(ctx context.Context, p *snapshot) {
	if p.have && !p.counts.Paused {
		ctx, cancel := k.within(ctx)
		defer cancel()
		if err := k.Inventory.SetPaused(ctx, k.id, p.sale.Epoch, true); err != nil {
			return
		}
		kick(k.kept)
		return
	}
	now := k.Clock()
	if age := now.Sub(k.asked); age >= 0 && age < listEvery {
		return
	}
	k.asked = now
	if !p.have && !k.old {
		// The process before this one may have died in a recovery.
		if k.readOut(ctx, p.sale.Epoch) != nil {
			return
		}
		k.old = true
	}
	if p.have && p.counts.Backlog > 0 {
		return
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	t, err := k.Ledger.Totals(ctx, k.id)
	if err != nil || t.Pending > 0 {
		return
	}
	if p.have {
		err := k.Inventory.Delete(ctx, k.id, p.sale.Epoch)
		if err != nil && !errors.Is(err, sale.ErrStale) {
			return
		}
	}
	k.setSale(t.Sale)
	k.finish(k.live)
	k.Log.Info("sale over", "sale", k.id, "sold", t.Sale.Sold, "of", t.Sale.Stock)
}

// account looks after reservations that this shop acknowledged and that no clerk of it has
// seen. Those of an earlier epoch are lost if they are no orders, for every earlier stream is
// read to its end. Of those that were acknowledged a while ago, other shops wrote the orders
// of most. It is no more at a time than a look of the keeper can wait for.
func (k *keeper) account(ctx context.Context, p *snapshot) {
	began := time.Now()
	if p.have {
		for _, r := range k.unsettled(time.Time{}, p.sale.Epoch, 100) {
			state, err := k.find(ctx, r)
			if err != nil || time.Since(began) > refreshEvery/2 {
				return
			}
			if state == sale.Lost {
				k.Log.Warn("acknowledged reservation lost", "sale", k.id, "epoch", r.Epoch, "reservation", r.ID)
			}
		}
	}
	now := k.Clock()
	if age := now.Sub(k.swept); age >= 0 && age < listEvery {
		return
	}
	k.swept = now
	for _, r := range k.unsettled(now.Add(-30*time.Second), 0, 50) {
		if _, err := k.find(ctx, r); err != nil || time.Since(began) > refreshEvery/2 {
			return
		}
	}
}

// differ asks both sides again whether they differ as p says: what is known of the Ledger is
// old while it does not answer.
func (k *keeper) differ(ctx context.Context, p *snapshot) bool {
	row, err := k.fresh(ctx)
	if err != nil || row.Epoch != p.sale.Epoch {
		return false
	}
	k.setSale(row)
	c, err := k.count(ctx, row.Epoch)
	return err == nil && c.Backlog == 0 && c.Reserved == p.counts.Reserved && row.Sold == p.sale.Sold
}

// drift notices that what the Inventory holds and what the Ledger has sold differ for good: no
// entry is on its way, and neither changes.
type drift struct {
	reserved, sold, free int64
	epoch                int64
	times                int
}

// driftFor is for how many looks that has to be so.
const driftFor = 50

func (d *drift) seen(p *snapshot) bool {
	c, s := &p.counts, &p.sale
	same := d.reserved == c.Reserved && d.sold == s.Sold && d.free == c.Free && d.epoch == s.Epoch
	if c.Backlog != 0 || c.Reserved == s.Sold || !same {
		*d = drift{c.Reserved, s.Sold, c.Free, s.Epoch, 0}
		return false
	}
	d.times++
	if d.times < driftFor {
		return false
	}
	d.times = 0
	return true
}
