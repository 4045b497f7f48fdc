//go:build !linux

package e2e_test

import "testing"

// alone runs nothing: only Linux gives a process a network of its own.
func alone(*testing.T, ...string) bool { return false }
