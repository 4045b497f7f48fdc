// Package replay reads the beginning of request bodies and puts it back.
package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// The errors of Read.
var (
	// ErrTooLong reports a body that is longer than the bound.
	ErrTooLong = errors.New("request body too long to read")
	// ErrFull reports that the Memory is used up.
	ErrFull = errors.New("too many request bodies in memory")
)

// A Memory bounds the bytes of bodies that are read at the same time. It is safe for concurrent use.
type Memory struct {
	Max  int64
	used atomic.Int64
}

func (m *Memory) take(n int64) bool {
	if m.used.Add(n) <= m.Max {
		return true
	}
	m.used.Add(-n)
	return false
}

// A Body is the body of a request that Read has read.
type Body struct {
	text  []byte // what was read
	whole bool
	err   error // of reading
	rest  io.ReadCloser
	held  *held
}

// held counts the bytes of one body in a Memory.
type held struct {
	memory *Memory
	n      atomic.Int64
}

func (h *held) release() { h.memory.take(-h.n.Swap(0)) }

// first is the number of bytes that are read at first. Later reads double it.
const first = 4 << 10

// Read returns the body of r if it has at most max bytes and arrives within timeout, and makes r.Body
// return it again from its beginning. A call with a larger bound continues the one before. After an
// error, r.Body returns what was read and then the rest, or the error. The rest of a body has the
// ReadTimeout of its server again.
func (b *Body) Read(w http.ResponseWriter, r *http.Request, max int64, timeout time.Duration, memory *Memory) ([]byte, error) {
	if b.rest == nil {
		if r.Body == nil || r.Body == http.NoBody {
			return nil, nil
		}
		b.held, b.rest = &held{memory: memory}, r.Body
	}
	if int64(len(b.text)) <= max && !b.whole && b.err == nil && r.ContentLength <= max {
		conn := http.NewResponseController(w)
		later := readTimeout(r)
		_ = conn.SetReadDeadline(time.Now().Add(min(timeout, cmp.Or(later, timeout))))
		b.fill(max, r.ContentLength)
		switch {
		case r.ProtoMajor < 2 && errors.Is(b.err, os.ErrDeadlineExceeded): // or the server would wait for the rest
		case b.whole || later == 0:
			_ = conn.SetReadDeadline(time.Time{}) // a deadline that passes later would end the request
		default:
			_ = conn.SetReadDeadline(time.Now().Add(later))
		}
		r.Body = &body{text: b.text, rest: b.tail(), Closer: b.rest, held: b.held}
	}
	switch {
	case b.err != nil:
		return nil, b.err
	case !b.whole || int64(len(b.text)) > max:
		return nil, fmt.Errorf("%w: want at most %d bytes", ErrTooLong, max)
	}
	return b.text, nil
}

// readTimeout returns the time in which the server of r expects a request of HTTP/1, or 0.
func readTimeout(r *http.Request) time.Duration {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && r.ProtoMajor < 2 {
		return s.ReadTimeout
	}
	return 0
}

// fill reads until the end of a body of the given length, or -1, or one byte more than max.
func (b *Body) fill(max, length int64) {
	for int64(len(b.text)) <= max && !b.whole && b.err == nil {
		if have := int64(len(b.text)); len(b.text) == cap(b.text) {
			more := have
			if more < first {
				more = first
			}
			if length >= have && length-have < more {
				more = length - have + 1 // for its end
			}
			if !b.held.memory.take(more) {
				b.err = ErrFull
				return
			}
			b.held.n.Add(more)
			b.text = append(make([]byte, 0, have+more), b.text...)
		}
		n, err := b.rest.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		b.whole = err == io.EOF
		if err != nil && err != io.EOF {
			b.err = err
		}
	}
}

// tail returns the part of the body that was not read.
func (b *Body) tail() io.Reader {
	switch {
	case b.whole:
		return http.NoBody // the server closes a body when the response begins
	case b.err != nil && b.err != ErrFull:
		return failed{b.err}
	}
	return b.rest
}

type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// Replace makes r.Body return text. It requires that the body was read whole.
func (b *Body) Replace(r *http.Request, text []byte) {
	r.Body = &body{text: text, rest: b.tail(), Closer: b.rest, held: b.held}
	r.ContentLength, r.TransferEncoding = int64(len(text)), nil
	if r.Header.Get("Content-Length") != "" {
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	}
}

// Forget drops what b has read. r.Body keeps what it has not yet returned.
func (b *Body) Forget() { b.text, b.err = nil, ErrTooLong }

// Release returns the memory of b.
func (b *Body) Release() {
	if b.held != nil {
		b.held.release()
	}
	*b = Body{}
}

// A body is a request body whose beginning was read already. Its memory is released when that has
// been read again.
type body struct {
	text []byte
	rest io.Reader
	held *held
	io.Closer
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if len(b.text) > 0 {
		n := copy(p, b.text)
		if b.text = b.text[n:]; len(b.text) == 0 {
			b.text = nil
			b.held.release()
		}
		return n, nil
	}
	return b.rest.Read(p)
}
