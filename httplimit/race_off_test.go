//go:build !race

package httplimit_test

// racing is set under the race detector: a sync.Pool then drops values at random, and
// allocations are not counted.
const racing = false
