//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// neverWaits reports whether readSocket and writeSocket return at once.
const neverWaits = true

// readSocket reads into p, which is not empty.
func readSocket(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// writeSocket writes p, which is not empty.
func writeSocket(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
