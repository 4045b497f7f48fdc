// Package suggest derives limits from the use in a log: `weir suggest`.
//
//	a := suggest.New()
//	for … {
//		a.Add(&entry)
//	}
//	s, err := a.Suggest(suggest.Config{})
//	…
//	err = s.WritePolicies(os.Stdout)
//
// For each client, the analysis keeps the smallest burst that admits all of its requests, at
// each of 24 rates. This envelope σ(ρ) is exact and needs one pass (Cruz, A Calculus for
// Network Delay, 1991; Tang and Tai, Network Traffic Characterization Using Token Bucket Model,
// 1999).
//
// The suggested burst is twice the 95th percentile of the envelopes of active clients. The
// rate is the smallest whose burst lasts at most a minute. Logs of two hours or two days add
// quotas likewise, by the maximum in 70 minutes or 28 hours. A client above that limit is an
// abuser only if it does harm (see [Reason]). Other clients get an override of one and a half
// times their envelope.
//
// # Limits
//
// The percentile is misleading if abusers and other heavy clients exceed 5 % of the active
// clients. Slow abuse from many addresses looks like many clients.
package suggest
