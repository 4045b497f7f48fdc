//go:build race

package metrics_test

// million is smaller with the race detector, which is ten times slower.
const million = 10_000
