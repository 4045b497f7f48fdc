//go:build unix && (!linux || race)

package socket

import "syscall"

// neverWaits reports whether readSocket and writeSocket return at once.
const neverWaits = true

// readSocket reads into p, which is not empty. The race detector knows the calls of package syscall,
// which order what two ends of a connection do.
func readSocket(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return max(0, n), errnoOf(err)
}

// writeSocket writes p, which is not empty.
func writeSocket(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return max(0, n), errnoOf(err)
}

func errnoOf(err error) syscall.Errno {
	errno, ok := err.(syscall.Errno)
	if err != nil && !ok {
		errno = syscall.EINVAL
	}
	return errno
}
