package shop

import (
	"context"
	"time"
)

// slotReturner returns the slots of used admission tokens of one Direct sale in batches.
type slotReturner struct {
	*env
	admission *admission
	sale      *liveSale
}

// slotsEvery is the time for which used tokens are collected.
const slotsEvery = 20 * time.Millisecond

func (r *slotReturner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.sale.finished:
			return
		case <-r.sale.slotsNow:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(slotsEvery):
		}
		p := r.sale.snapshot.Load()
		if n := r.sale.takeUsedTokens(p.sale.Epoch, p.now(r.clock())); n > 0 {
			r.admission.giveBack(ctx, &p.sale, n)
		}
	}
}
