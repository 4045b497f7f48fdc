// Package benchmarks compares Weir with its peers in one run on one machine, so that
// ratios can be quoted. TestPeers measures rows of contenders in rounds:
//
//	make bench-peers
//	make bench-peers ROWS='local|redis' ROUNDS=3
//	make bench-growth
//
// The benchmarks are for work on one area:
//
//	make bench
//
// or, for one group, repeated to show noise:
//
//	cd benchmarks && go test -bench 'Keyed' -count 6 .
//
// There are five groups:
//
//   - Keyed: decisions in this process.
//   - Redis: decisions in a Redis that the benchmark starts.
//   - Guard: calls of a guarded function, compared with failsafe-go and Sentinel.
//   - Nginx: requests through nginx and Weir, compared with nginx alone. It starts the
//     servers and wrk and prints a table.
//   - Gateway: CPU time of the gateway relative to nginx with limit_req, in interleaved
//     rounds.
//
// Tests plot what protections do to goodput and latency, in virtual time: make plots.
//
// Times are wall times of one decision; those of Nginx are CPU times of one request.
// Machines are noisy: quote medians and ratios of rows of the same run, never a row alone.
package benchmarks
