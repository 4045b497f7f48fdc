package shop

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

const (
	maxNetworkUses   = 10_000 // that wait to be written
	networkBatch     = 500
	networkBatchWait = 250 * time.Millisecond
)

// networkRecorder writes in batches from which networks users bought. It drops records rather
// than delay a purchase.
type networkRecorder struct {
	*env
	queue chan sale.NetworkUse
}

// add queues a record, or drops it if the queue is full.
func (r *networkRecorder) add(u sale.NetworkUse) {
	select {
	case r.queue <- u:
	default:
		r.stats.droppedNetworks.Add(1)
	}
}

// run writes batches until ctx ends, and then what is queued.
func (r *networkRecorder) run(ctx context.Context) {
	var batch []sale.NetworkUse
	tick := time.NewTicker(networkBatchWait)
	defer tick.Stop()
	for {
		select {
		case u := <-r.queue:
			if batch = append(batch, u); len(batch) < networkBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for {
				select {
				case u := <-r.queue:
					batch = append(batch, u)
					continue
				default:
				}
				r.write(ctx, batch)
				return
			}
		}
		r.write(ctx, batch)
		batch = batch[:0]
	}
}

func (r *networkRecorder) write(ctx context.Context, batch []sale.NetworkUse) {
	if len(batch) == 0 {
		return
	}
	call, cancel := r.callToEnd(ctx)
	defer cancel()
	if err := r.ledger.RecordNetworks(call, batch); err != nil {
		r.stats.ledgerErrors.Add(1)
		r.stats.droppedNetworks.Add(int64(len(batch)))
		r.log.Warn("buyers' networks not recorded", "users", len(batch), "error", err)
	}
}
