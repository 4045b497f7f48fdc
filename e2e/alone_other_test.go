//go:build !linux

package e2e_test

import "testing"

// alone returns false: only Linux has network namespaces.
func alone(*testing.T, ...string) bool { return false }
