//go:build race

package failover_test

// racing: under the race detector a sync.Pool forgets at random, and everything
// takes ten times as long.
const racing = true
