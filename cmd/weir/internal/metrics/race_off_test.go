//go:build !race

package metrics_test

// million is how many names an outsider makes up.
const million = 1_000_000
