//go:build unix && !linux

package pgtest

import (
	"syscall"
	"testing"
)

// SmallDisk is not supported on this system: ok is false.
func (s *Server) SmallDisk(testing.TB, string, int) (resize func(megabytes int), ok bool) {
	return nil, false
}

// endWithTest does nothing here.
func endWithTest(*syscall.SysProcAttr) {}

// memoryDir is not supported on this system.
func memoryDir(testing.TB) string { return "" }
