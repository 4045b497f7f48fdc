package weir

import "context"

// TakeAll consumes what requests of kind Take ask for, all or none, at one
// instant of the store's clock, and returns the decision that counts: of a
// denial the one that holds back longest, of an admission the one with the
// smallest share of its capacity left. The requests must be of one store; see
// Limiter.Request.
func TakeAll(ctx context.Context, store Store, rs ...Request) (Decision, error) {
	var few [8]Decision
	ds := few[:min(len(rs), len(few))]
	if len(rs) > len(few) {
		ds = make([]Decision, len(rs))
	}
	if _, err := store.DoAll(ctx, rs, ds); err != nil {
		return Decision{}, err
	}
	return Combine(ds), nil
}

// Combine is the decision that counts among decisions made together: of a
// denial the one that holds back longest, of an admission the one with the
// smallest share of its capacity left. Its Delay is the longest of all, and its
// Granted is 0 if it is a denial. It is the zero Decision if ds is empty.
func Combine(ds []Decision) Decision {
	if len(ds) == 0 {
		return Decision{}
	}
	counts := ds[0]
	delay := ds[0].Delay
	for _, d := range ds[1:] {
		delay = max(delay, d.Delay)
		if tighter(d, counts) {
			counts = d
		}
	}
	if counts.OK {
		counts.Delay = delay
	}
	return counts
}

// tighter reports whether d restrains more than e.
func tighter(d, e Decision) bool {
	switch {
	case d.OK != e.OK:
		return !d.OK
	case !d.OK:
		return d.RetryAfter > e.RetryAfter
	}
	// Shares are compared as fractions, in floats: a tie that rounding makes is no
	// harm where only the report is chosen.
	return float64(d.Remaining)*float64(e.Capacity()) < float64(e.Remaining)*float64(d.Capacity())
}
