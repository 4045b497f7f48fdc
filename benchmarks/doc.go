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
// starts), Guard (calls of a guarded function, beside failsafe-go and Sentinel) and Nginx
// (requests through nginx and Weir, beside nginx alone: servers that it starts, wrk, and
// a table at the end).
//
// Times are wall times of one decision; those of Nginx are CPU times of one request.
// Machines are noisy: quote medians and
// ratios of rows of the same run, never a row alone.
package benchmarks
