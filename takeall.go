package weir

import (
	"context"
	"slices"
	"sync"
)

// TakeAll decides requests together, all or none, at one instant of the store's clock.
// It returns the decision that counts, as Decision.Combine does. The requests are
// usually Takes; those of a Limiter come from Limiter.Request.
func TakeAll(ctx context.Context, store Store, rs ...Request) (Decision, error) {
	if len(rs) > len(batch{}.rs) { // a copy, so that no rs has to be on the heap
		return takeAll(ctx, store, slices.Clone(rs), make([]Decision, len(rs)))
	}
	b := batches.Get().(*batch)
	n := copy(b.rs[:], rs)
	d, err := takeAll(ctx, store, b.rs[:n], b.ds[:n])
	clear(b.rs[:n])
	batches.Put(b)
	return d, err
}

func takeAll(ctx context.Context, store Store, rs []Request, ds []Decision) (Decision, error) {
	if _, err := store.DoAll(ctx, rs, ds); err != nil || len(ds) == 0 {
		return Decision{}, err
	}
	return ds[0].Combine(ds[1:]...), nil
}

// A batch has room for the usual number of requests, so that those of a caller need none of the
// heap.
type batch struct {
	rs [32]Request
	ds [32]Decision
}

var batches = sync.Pool{New: func() any { return new(batch) }}
