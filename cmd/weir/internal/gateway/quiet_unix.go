//go:build unix

package gateway

import (
	"net"
	"syscall"
)

// canSendDirectly reports whether isQuiet works on this system.
const canSendDirectly = true

// isQuiet reports whether the peer of an idle connection has neither closed it nor sent
// anything. What an upstream sends without a request must not become the next response.
func isQuiet(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && quiet
}
