package shop

import (
	"context"
	"maps"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// curveRecorder writes the figures of sales to the curves that all processes share. It uses the
// snapshots of the sales alone, so it makes no calls to the inventory, and none to the ledger
// while no figure changes.
type curveRecorder struct {
	*env
	catalog *catalog
	store   sale.Curves
	process string // unique for this value

	recorded map[*liveSale]figures // what this process wrote last
}

// figures are the figures of a snapshot whose changes are written.
type figures struct {
	stock, sold, paid, waiting, admitted int64
	ended                                bool
}

// run writes changes each CurveStep until ctx ends, and then once more.
func (r *curveRecorder) run(ctx context.Context) {
	tick := time.NewTicker(sale.CurveStep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.record(ctx)
			return
		case <-tick.C:
			r.record(ctx)
		}
	}
}

// record writes the sales whose figures have changed. Sales that are not live any more are
// written a last time.
func (r *curveRecorder) record(ctx context.Context) {
	sales := map[*liveSale]figures{} // the new figures
	for _, l := range r.catalog.live() {
		sales[l] = figures{}
	}
	gone := maps.Clone(r.recorded)
	maps.DeleteFunc(gone, func(l *liveSale, _ figures) bool { _, live := sales[l]; return live })
	maps.Copy(sales, gone)

	var samples []sale.CurveSample
	for l := range sales {
		last, known := r.recorded[l]
		s, now := r.sample(l, last)
		if known && now == last {
			delete(sales, l)
			continue
		}
		sales[l] = now
		samples = append(samples, s)
	}
	if len(samples) > 0 {
		call, cancel := r.callToEnd(ctx)
		defer cancel()
		if err := r.store.AddSamples(call, r.process, samples); err != nil {
			r.stats.ledgerErrors.Add(1)
			return // the next samples have the same figures
		}
	}
	maps.Copy(r.recorded, sales)
	for l := range gone {
		delete(r.recorded, l)
	}
}

// sample returns a sample of a sale and its figures. last are those of the sample before. The
// queue is known while this process reads the counts; otherwise other processes know it, or it
// is empty.
func (r *curveRecorder) sample(l *liveSale, last figures) (sale.CurveSample, figures) {
	p := l.snapshot.Load()
	now := figures{stock: p.sale.Stock, sold: p.sale.Sold, paid: p.sale.Paid, waiting: last.waiting, admitted: l.admitted.Load(), ended: p.sale.State == sale.Ended}
	s := sale.CurveSample{Sale: l.id, At: r.now(), Admitted: now.admitted}
	if age := r.clock().Sub(p.at); p.counted && age >= 0 && age < sale.CurveStep {
		s.Counted, s.Waiting = true, p.counts.Waiting
	}
	if now.ended {
		s.Counted, s.Waiting = true, 0
	}
	if s.Counted {
		now.waiting = s.Waiting
	}
	return s, now
}
