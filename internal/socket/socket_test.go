//go:build unix

package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/socket"
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, nc := range []net.Conn{dialed, accepted} {
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
	}
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// TestConn checks that a Conn transfers the bytes and returns the errors of its connection.
func TestConn(t *testing.T) {
	type end interface{ io.ReadWriter }
	for name, of := range map[string]func(nc net.Conn) end{
		"net":    func(nc net.Conn) end { return nc },
		"socket": func(nc net.Conn) end { return socket.New(nc) },
	} {
		t.Run(name, func(t *testing.T) {
			want := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the buffers of the kernel
			a, b := connected(t)
			sent := make(chan error, 1)
			go func() {
				n, err := of(a).Write(want)
				if n != len(want) {
					t.Errorf("Write = %d, %v, want %d", n, err, len(want))
				}
				a.CloseWrite()
				sent <- err
			}()
			if got, err := io.ReadAll(of(b)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes, %v, want %d", len(got), err, len(want))
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
			b.SetReadDeadline(time.Unix(1, 0))
			check := func(what string, err, want error, prefix string) {
				t.Helper()
				var of *net.OpError
				if !errors.Is(err, want) || !errors.As(err, &of) || of.Source == nil || !strings.HasPrefix(err.Error(), prefix) {
					t.Errorf("%s: %v, want %v with the prefix %q", what, err, want, prefix)
				}
			}
			one := make([]byte, 1)
			_, err := of(b).Read(one)
			check("deadline", err, os.ErrDeadlineExceeded, "read tcp "+b.LocalAddr().String())
			b.Close()
			_, err = of(b).Read(one)
			check("read after Close", err, net.ErrClosed, "read tcp ")
			_, err = of(b).Write(one)
			check("write after Close", err, net.ErrClosed, "write tcp ")

			a, b = connected(t)
			b.SetLinger(0)
			b.Close() // sends RST
			_, err = of(a).Read(one)
			check("reset", err, syscall.ECONNRESET, "read tcp ")
			_, err = of(a).Write(one)
			check("write after reset", err, syscall.EPIPE, "write tcp ")
		})
	}
}

// TestAsk checks that a request is sent only over an idle connection.
func TestAsk(t *testing.T) {
	buf := make([]byte, 100)
	ask := func(c *socket.Conn) string {
		n, err := c.Ask([]byte("request"), buf)
		if err != nil {
			return err.Error()
		}
		return string(buf[:n])
	}
	a, b := connected(t)
	c := socket.New(a)
	go func() {
		for range 2 {
			n, _ := b.Read(make([]byte, 100))
			b.Write(bytes.Repeat([]byte("a"), n))
		}
	}()
	for range 2 {
		if got := ask(c); got != "aaaaaaa" {
			t.Errorf("Ask = %q, want a response of 7 bytes", got)
		}
	}
	for name, before := range map[string]func(b *net.TCPConn){
		"bytes":  func(b *net.TCPConn) { io.WriteString(b, "HTTP/1.1 200 OK\r\n\r\n"); b.CloseWrite() },
		"closed": func(b *net.TCPConn) { b.CloseWrite() },
		"reset":  func(b *net.TCPConn) { b.SetLinger(0); b.Close() },
	} {
		a, b := connected(t)
		before(b)
		awaitReadable(t, a)
		if got := ask(socket.New(a)); got != socket.ErrNotIdle.Error() {
			t.Errorf("%s: Ask = %q, want %v", name, got, socket.ErrNotIdle)
		}
		a.Close()
		if got, err := io.ReadAll(b); name != "reset" && (err != nil && !errors.Is(err, syscall.ECONNRESET) || len(got) > 0) {
			t.Errorf("%s: the peer received %q, %v, want nothing", name, got, err)
		}
	}

	// A request that does not fit into the buffers of the kernel.
	a, b = connected(t)
	large := bytes.Repeat([]byte("r"), 8<<20)
	go func() {
		n, _ := io.CopyN(io.Discard, b, int64(len(large)))
		io.WriteString(b, strings.Repeat("x", int(n>>20)))
	}()
	if n, err := socket.New(a).Ask(large, buf); err != nil || string(buf[:n]) != "xxxxxxxx" {
		t.Errorf("large request: %q, %v", buf[:n], err)
	}
	pipe, _ := net.Pipe()
	if _, err := socket.New(pipe).Ask(large, buf); err != socket.ErrNotIdle {
		t.Errorf("a connection without system calls: %v, want %v", err, socket.ErrNotIdle)
	}
}

// awaitReadable waits until a read would not wait.
func awaitReadable(t *testing.T, nc *net.TCPConn) {
	t.Helper()
	raw, err := nc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}
