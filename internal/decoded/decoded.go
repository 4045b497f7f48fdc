// Package decoded decodes the Content-Encoding of a response while it is written.
package decoded

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxSize bounds the bytes of a body after decoding.
const maxSize = 256 << 20

// A Writer decodes the bytes that are written to it.
type Writer struct {
	to   func([]byte)
	pipe *io.PipeWriter // nil for a body without an encoding
	done chan struct{}
	err  error
}

// New returns a Writer that calls to with the decoded bytes. It decodes gzip and deflate. Close
// must be called at the end of the body. The error is about an unknown encoding.
func New(encoding string, to func([]byte)) (*Writer, error) {
	w := &Writer{to: to}
	switch encoding = strings.ToLower(strings.TrimSpace(encoding)); encoding {
	case "", "identity":
	case "gzip", "x-gzip", "deflate":
		var from *io.PipeReader
		from, w.pipe = io.Pipe()
		w.done = make(chan struct{})
		go w.run(from, encoding)
	default:
		return nil, fmt.Errorf("content encoding %q: want gzip, deflate or none", encoding)
	}
	return w, nil
}

// Write decodes p. It returns when all bytes were passed on, except those of which the rest is
// missing. It accepts every byte: Close returns the error.
func (w *Writer) Write(p []byte) (int, error) {
	if w.pipe != nil {
		_, _ = w.pipe.Write(p) // fails after an error of run
	} else {
		w.to(p)
	}
	return len(p), nil
}

// Close ends the body and waits for its last bytes. A body that is cut is no error. Close again
// returns the same.
func (w *Writer) Close() error {
	if w.pipe != nil {
		_ = w.pipe.Close()
		<-w.done
	}
	return w.err
}

func (w *Writer) run(from *io.PipeReader, encoding string) {
	defer close(w.done)
	if err := w.decode(from, encoding); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.err = fmt.Errorf("content encoding %s: %w", encoding, err)
	}
	_ = from.CloseWithError(io.ErrClosedPipe)
}

func (w *Writer) decode(from io.Reader, encoding string) error {
	in := bufio.NewReader(from)
	first, err := in.Peek(1)
	if err != nil {
		return nil // an empty body
	}
	var text io.Reader
	switch {
	case encoding != "deflate":
		text, err = gzip.NewReader(in)
	case first[0]&0x0f == 8:
		text, err = zlib.NewReader(in)
	default: // deflate without the header of zlib
		text = flate.NewReader(in)
	}
	if err != nil {
		return err
	}
	buf := make([]byte, 4<<10)
	for total := 0; total < maxSize; {
		n, err := text.Read(buf)
		w.to(buf[:n])
		total += n
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("want at most %d bytes", maxSize)
}
