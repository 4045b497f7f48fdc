// Package benchmarks puts Weir beside its peers, each peer and Weir in one run
// on one machine, so that what is quoted is a ratio:
//
//	make bench
//
// or, for one group, repeated so that noise shows:
//
//	cd benchmarks && go test -bench 'Keyed' -count 6 .
//
// The groups are Keyed (decisions in this process), Redis (decisions in a Redis that it
// starts) and Guard (calls of a guarded function, beside failsafe-go and Sentinel).
//
// Times are wall times of one decision. Machines are noisy: quote medians and
// ratios of rows of the same run, never a row alone.
package benchmarks
