package weir

import "context"

// TakeAll decides requests together, all or none, at one instant of the store's clock.
// It returns the decision that counts, as Decision.Combine does. The requests are
// usually Takes; those of a Limiter come from Limiter.Request.
func TakeAll(ctx context.Context, store Store, rs ...Request) (Decision, error) {
	var few [8]Decision
	ds := few[:min(len(rs), len(few))]
	if len(rs) > len(few) {
		ds = make([]Decision, len(rs))
	}
	if _, err := store.DoAll(ctx, rs, ds); err != nil || len(ds) == 0 {
		return Decision{}, err
	}
	return ds[0].Combine(ds[1:]...), nil
}
