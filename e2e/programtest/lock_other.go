//go:build !unix

package programtest

// lock does nothing where there is no flock.
func lock(string) (unlock func(), err error) { return func() {}, nil }
