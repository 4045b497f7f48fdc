//go:build !race

package metrics_test

// million counts the names that clients send.
const million = 1_000_000
