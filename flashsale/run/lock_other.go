//go:build !unix

package run

// lock does nothing on this system. The operator must start one process per directory.
func lock(string) (free func() error, err error) { return func() error { return nil }, nil }
