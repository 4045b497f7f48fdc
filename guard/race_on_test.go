//go:build race

package guard_test

// racing: under the race detector a sync.Pool forgets at random, and allocations are
// not counted.
const racing = true
