// Package socket reads and writes TCP connections with system calls that the scheduler does not see.
//
// A goroutine loses its processor if a system call of package syscall takes longer than 20 µs. Writes
// do, when the kernel first runs the process that they wake up. Another thread then continues, for a
// wake-up and a task switch. Calls that never wait need none of that.
package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// A Conn reads from and writes to a connection. It is safe for concurrent use, as that is.
type Conn struct {
	nc      net.Conn
	raw     syscall.RawConn // nil if the system calls are those of nc
	in, out transfer

	read, write, ask func(fd uintptr) bool // of raw; true ends it
}

// A transfer is a read or a write, which holds its lock.
type transfer struct {
	mu sync.Mutex
	transferState
}

type transferState struct {
	p     []byte // to read into, or to write
	n     int    // bytes transferred
	err   error
	asked bool // Ask has sent its request
}

// ErrNotIdle is returned by [Conn.Ask].
var ErrNotIdle = errors.New("connection closed or used by its peer")

// New returns a Conn of nc, whose deadlines apply.
func New(nc net.Conn) *Conn {
	c := &Conn{nc: nc}
	if sc, ok := nc.(syscall.Conn); ok && neverWaits {
		c.raw, _ = sc.SyscallConn()
	}
	c.read, c.write, c.ask = c.readNow, c.writeNow, c.askNow
	return c
}

// Read implements [io.Reader].
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.nc.Read(p)
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.transferState = transferState{p: p}
	return c.received(c.raw.Read(c.read))
}

// received ends a read, of which raw has returned err.
func (c *Conn) received(err error) (int, error) {
	n, cause := c.in.n, c.in.err
	c.in.transferState = transferState{}
	switch {
	case cause == io.EOF || cause == ErrNotIdle:
		return 0, cause
	case err != nil || cause != nil:
		return 0, c.failed("read", err, cause)
	}
	return n, nil
}

// readNow reads, unless nothing has arrived.
func (c *Conn) readNow(fd uintptr) bool {
	for {
		n, errno := readSocket(fd, c.in.p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			c.in.err = errno
		case n == 0:
			c.in.err = io.EOF
		}
		c.in.n = n
		return true
	}
}

// maxWrite bounds the bytes of a system call, because a goroutine cannot be stopped during it.
const maxWrite = 64 << 10

// Write implements [io.Writer].
func (c *Conn) Write(p []byte) (int, error) {
	if c.raw == nil {
		return c.nc.Write(p)
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.transferState = transferState{p: p}
	err := c.raw.Write(c.write)
	n, cause := c.out.n, c.out.err
	c.out.transferState = transferState{}
	if err != nil || cause != nil {
		return n, c.failed("write", err, cause)
	}
	return n, nil
}

// writeNow writes as much as there is room for. It reports whether that is all, or has failed.
func (c *Conn) writeNow(fd uintptr) bool {
	for o := &c.out; o.n < len(o.p); {
		n, errno := writeSocket(fd, o.p[o.n:min(len(o.p), o.n+maxWrite)])
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			o.err = errno
			return true
		default:
			o.n += n
		}
	}
	return true
}

// Ask writes a request to an idle connection, and reads the begin of its response. What the peer sent
// before must not become the response: the error is then ErrNotIdle, and nothing was written.
func (c *Conn) Ask(request, p []byte) (int, error) {
	if c.raw == nil {
		return 0, ErrNotIdle
	}
	n, sent, err := c.exchange(request, p)
	if err == nil && sent < len(request) {
		if _, err = c.Write(request[sent:]); err == nil {
			n, err = c.Read(p)
		}
	}
	return n, err
}

// exchange sends a request, and reads the begin of its response unless there is no room for all of the
// request.
func (c *Conn) exchange(request, p []byte) (n, sent int, err error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.in.transferState, c.out.transferState = transferState{p: p}, transferState{p: request}
	err = c.raw.Read(c.ask)
	sent, cause := c.out.n, c.out.err
	c.out.transferState = transferState{}
	if cause != nil {
		c.in.transferState = transferState{}
		return 0, sent, c.failed("write", nil, cause)
	}
	n, err = c.received(err)
	return n, sent, err
}

// askNow sends the request when it is first called, and then reads. Between them it needs no read
// that finds nothing: raw waits for what arrives after the read before the request.
func (c *Conn) askNow(fd uintptr) bool {
	if c.in.asked {
		return c.readNow(fd)
	}
	if c.readNow(fd) {
		c.in.transferState = transferState{err: ErrNotIdle}
		return true
	}
	c.in.asked = true
	return !c.writeNow(fd) || c.out.err != nil
}

// failed returns the error that nc would return, for one of raw or of a system call.
func (c *Conn) failed(op string, err, cause error) error {
	var of *net.OpError
	if errors.As(err, &of) {
		cause = of.Err
	} else if cause != nil {
		cause = os.NewSyscallError(op, cause)
	} else {
		cause = err
	}
	return &net.OpError{Op: op, Net: c.nc.LocalAddr().Network(), Source: c.nc.LocalAddr(), Addr: c.nc.RemoteAddr(), Err: cause}
}
