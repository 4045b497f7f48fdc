//go:build race

package memstore_test

// racing is set under the race detector, which drops items of a sync.Pool at random and takes ten
// times as long. It skips files whose tests have one goroutine: they have a build tag.
const racing = true
