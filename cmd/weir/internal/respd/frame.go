package respd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
)

// This file protects redcon, whose reader trusts lengths: a length of 2^63−1 makes it
// panic, a count of 2^31−1 occupies it for seconds, and an endless pipeline grows its
// buffer without limit. A framer finds the arguments of each command within bounds, and
// redcon only parses complete inline commands.

// Bounds of one command. The bounds before authentication are those of Redis.
const (
	maxBulk   = 64 << 10  // longest argument; equals bounds.MaxKey
	maxArgs   = 1024      // maximum number of arguments
	maxFrame  = 128 << 10 // longest command
	maxInline = 16 << 10  // longest inline command
	maxHeader = 32        // longest line with a count or a length

	maxBulkUnauthenticated = 16 << 10
	maxArgsUnauthenticated = 10
)

const (
	buffer = 8 << 10 // bytes of every connection
	// maxExtra is the maximum of additional buffer bytes of all connections together.
	maxExtra = 64 << 20
)

// A protocolError is sent to the client before the connection ends.
type protocolError string

func (e protocolError) Error() string { return "ERR Protocol error: " + string(e) }

var errBuffersFull = errors.New("ERR too many incomplete commands of other clients, try again")

// A framer splits the bytes of a client into commands.
type framer struct {
	from          io.Reader
	extra         *atomic.Int64 // of all framers: bytes beyond buffer
	authenticated bool          // or no password is configured

	buf  []byte
	r, w int // received and not returned yet: buf[r:w]
	at   int // scanned bytes, from r
	left int // arguments to scan; 0 before their count is known

	marks []int    // begin and end of the scanned arguments, from r
	args  [][]byte // of the last multibulk
}

func newFramer(from io.Reader, extra *atomic.Int64) *framer {
	return &framer{from: from, extra: extra, buf: make([]byte, buffer)}
}

// pending reports whether a command is incomplete.
func (f *framer) pending() bool { return f.r < f.w }

// next returns the next complete command, or nil if more bytes are needed. args are its
// arguments, or nil for an inline command. The results are valid until next and fill. An
// error is a protocolError.
func (f *framer) next() (frame []byte, args [][]byte, err error) {
	for f.r < f.w {
		scan := f.inline
		if f.buf[f.r] == '*' {
			scan = f.multibulk
		}
		end, empty, err := scan(f.buf[f.r:f.w])
		if err != nil || end == 0 {
			return nil, nil, err
		}
		frame = f.buf[f.r : f.r+end : f.r+end]
		f.args = f.args[:0]
		for i := 0; i < len(f.marks); i += 2 {
			f.args = append(f.args, frame[f.marks[i]:f.marks[i+1]:f.marks[i+1]])
		}
		f.r, f.at, f.left, f.marks = f.r+end, 0, 0, f.marks[:0]
		if !empty {
			return frame, f.args, nil
		}
	}
	return nil, nil, nil
}

// inline finds the end of a line.
func (f *framer) inline(b []byte) (end int, empty bool, err error) {
	i := bytes.IndexByte(b[f.at:], '\n')
	switch end = f.at + i + 1; {
	case i < 0 && len(b) <= maxInline:
		f.at = len(b)
		return 0, false, nil
	case i < 0 || end > maxInline:
		return 0, false, protocolError("too big inline request")
	}
	return end, len(bytes.TrimSpace(b[:end])) == 0, nil
}

// multibulk finds the end of *COUNT and that many $LENGTH.
func (f *framer) multibulk(b []byte) (end int, empty bool, err error) {
	if f.at == 0 {
		n, size, err := header(b, maxArgs, "multibulk length")
		switch {
		case err != nil || size == 0:
			return 0, false, err
		case n <= 0:
			return size, true, nil
		case !f.authenticated && n > maxArgsUnauthenticated:
			return 0, false, protocolError("unauthenticated multibulk length")
		}
		f.at, f.left = size, n
	}
	for f.left > 0 {
		if f.at >= len(b) {
			return 0, false, nil
		}
		if b[f.at] != '$' {
			return 0, false, protocolError(fmt.Sprintf("expected '$', got %q", b[f.at]))
		}
		n, size, err := header(b[f.at:], maxBulk, "bulk length")
		switch end := f.at + size + n + 2; {
		case err != nil || size == 0:
			return 0, false, err
		case n < 0:
			return 0, false, protocolError("invalid bulk length")
		case !f.authenticated && n > maxBulkUnauthenticated:
			return 0, false, protocolError("unauthenticated bulk length")
		case end > maxFrame:
			return 0, false, protocolError("too big request")
		case end > len(b):
			return 0, false, nil
		case b[end-2] != '\r' || b[end-1] != '\n':
			return 0, false, protocolError("invalid bulk length")
		default:
			f.marks = append(f.marks, end-2-n, end-2)
			f.at = end
			f.left--
		}
	}
	return f.at, false, nil
}

// header parses the number in a line such as "*3\r\n" and returns it with the size of the
// line; size 0 means that the line is incomplete.
func header(b []byte, most int, what string) (n, size int, err error) {
	i := bytes.IndexByte(b[:min(len(b), maxHeader)], '\n')
	switch {
	case i < 0 && len(b) < maxHeader:
		return 0, 0, nil
	case i < 2 || b[i-1] != '\r' || b[1] == '+':
		return 0, 0, protocolError("invalid " + what)
	}
	n, err = strconv.Atoi(string(b[1 : i-1]))
	if err != nil || n > most {
		return 0, 0, protocolError("invalid " + what)
	}
	return n, i + 1, nil
}

// fill reads more bytes. It returns the error of the connection, or errBuffersFull.
func (f *framer) fill() error {
	if f.r == f.w {
		f.r, f.w = 0, 0
		f.shrink()
	}
	if f.w == len(f.buf) {
		if f.r > 0 {
			f.w = copy(f.buf, f.buf[f.r:f.w])
			f.r = 0
		} else if err := f.grow(); err != nil {
			return err
		}
	}
	n, err := f.from.Read(f.buf[f.w:])
	f.w += n
	if n > 0 {
		return nil
	}
	return err
}

// grow doubles a full buffer. Buffers follow the bytes received, never the announced
// length.
func (f *framer) grow() error {
	more := int64(len(f.buf))
	if f.extra.Add(more) > maxExtra {
		f.extra.Add(-more)
		return errBuffersFull
	}
	b := make([]byte, 2*len(f.buf))
	copy(b, f.buf)
	f.buf = b
	return nil
}

// shrink frees what grow allocated.
func (f *framer) shrink() {
	if more := len(f.buf) - buffer; more > 0 {
		f.extra.Add(-int64(more))
		f.buf = make([]byte, buffer)
	}
}

// release frees the buffer at the end of the connection.
func (f *framer) release() { f.extra.Add(-int64(len(f.buf) - buffer)) }
