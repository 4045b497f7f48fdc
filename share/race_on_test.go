//go:build race

package share_test

// The race detector skips the simulations, which have one goroutine, and the allocations. This file
// adds the package to those that run with and without it.
