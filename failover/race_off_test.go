//go:build !race

package failover_test

const racing = false
