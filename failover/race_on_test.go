//go:build race

package failover_test

// racing is set under the race detector, which drops items of a sync.Pool at random and is ten
// times slower.
const racing = true
