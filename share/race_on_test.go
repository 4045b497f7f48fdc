//go:build race

package share_test

// racing is set under the race detector, which takes ten times as long. It skips the simulations, which
// have one goroutine, and the allocations: their files have a build tag.
const racing = true
