//go:build race

package metrics_test

// million is smaller where every step takes ten times as long.
const million = 100_000
