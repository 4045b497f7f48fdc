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
	maxSingles       = 50_000 // networks in one generation of single users
)

// networkRecorder writes in batches from which networks users bought. It drops records rather
// than delay a purchase. The merchant sees networks with several users only, so it writes the
// first user of a network together with the second one that this process sees.
type networkRecorder struct {
	*env
	queue chan sale.NetworkUse

	// The first users of networks, or the zero value for networks whose first user is written.
	// When the new ones are many, they replace the old ones.
	singles, older map[networkKey]sale.NetworkUse
}

// networkKey is a network of a sale.
type networkKey struct{ sale, network string }

// sharing returns the records to write because of u: none for the only user of a network.
func (r *networkRecorder) sharing(u sale.NetworkUse, to []sale.NetworkUse) []sale.NetworkUse {
	k := networkKey{u.Sale, u.Network}
	first, known := r.singles[k]
	if !known {
		if first, known = r.older[k]; !known {
			first = u
		}
		if len(r.singles) >= maxSingles || r.singles == nil {
			r.singles, r.older = make(map[networkKey]sale.NetworkUse), r.singles
		}
		r.singles[k] = first
	}
	if !known || first.User == u.User {
		return to
	}
	if first.User != "" {
		to = append(to, first)
		r.singles[k] = sale.NetworkUse{}
	}
	return append(to, u)
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
			if batch = r.sharing(u, batch); len(batch) < networkBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for {
				select {
				case u := <-r.queue:
					batch = r.sharing(u, batch)
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
