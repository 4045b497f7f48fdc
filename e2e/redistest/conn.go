package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A Conn is a RESP2 connection that sends one command at a time. Tests use it beside the
// client under test.
type Conn struct {
	c net.Conn
	r *bufio.Reader
	b []byte
}

// An Error is an error reply.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// Dial connects to a server.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, r: bufio.NewReader(c)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends a command and returns its reply: a string, an int64, nil, or a slice of replies, in
// which an error reply is an Error. An error reply to the command itself is returned as the
// error.
func (c *Conn) Do(args ...any) (any, error) {
	c.Send(args...)
	if err := c.Flush(); err != nil {
		return nil, err
	}
	v, err := c.Receive()
	if e, ok := v.(Error); ok {
		return nil, e
	}
	return v, err
}

// Send queues a command for Flush.
func (c *Conn) Send(args ...any) {
	c.b = fmt.Appendf(c.b, "*%d\r\n", len(args))
	for _, a := range args {
		s := fmt.Sprint(a)
		c.b = fmt.Appendf(c.b, "$%d\r\n%s\r\n", len(s), s)
	}
}

// Flush sends the queued commands.
func (c *Conn) Flush() error {
	c.c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := c.c.Write(c.b)
	c.b = c.b[:0]
	return err
}

// Receive reads the next reply.
func (c *Conn) Receive() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("redistest: reply %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return Error(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("redistest: reply %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	}
	vs := make([]any, n)
	for i := range vs {
		if vs[i], err = c.Receive(); err != nil {
			return nil, err
		}
	}
	return vs, nil
}
