//go:build !race

package memstore_test

const racing = false
