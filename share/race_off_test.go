//go:build !race

package share_test

const racing = false
