//go:build !unix

package socket

import "syscall"

// neverWaits is false: a Conn uses the methods of its connection.
const neverWaits = false

func readSocket(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }

func writeSocket(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }
