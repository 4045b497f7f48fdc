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
	"maps"
	"slices"
	"strings"
)

// maxSize bounds the bytes of a body after decoding.
const maxSize = 256 << 20

// Decoders are decoders of further encodings, by name in lower case. Each returns a reader of the
// decoded bytes. It must bound its memory, and pass bytes on as soon as they can be decoded.
type Decoders map[string]func(io.Reader) (io.ReadCloser, error)

// A Writer decodes the bytes that are written to it.
type Writer struct {
	to   func([]byte)
	pipe *io.PipeWriter // nil for a body without an encoding
	done chan struct{}
	err  error
}

// New returns a Writer that calls to with the decoded bytes. It decodes gzip, deflate and the
// encodings of more. Close must be called at the end of the body. The error is about an unknown
// encoding.
func New(encoding string, more Decoders, to func([]byte)) (*Writer, error) {
	w := &Writer{to: to}
	encoding = strings.ToLower(strings.TrimSpace(encoding))
	decode := more[encoding]
	switch encoding {
	case "", "identity":
		return w, nil
	case "gzip", "x-gzip":
		decode = func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case "deflate":
		decode = deflate
	}
	if decode == nil {
		known := append([]string{"gzip", "deflate"}, slices.Sorted(maps.Keys(more))...)
		return nil, fmt.Errorf("content encoding %q: want %s or none", encoding, strings.Join(known, ", "))
	}
	var from *io.PipeReader
	from, w.pipe = io.Pipe()
	w.done = make(chan struct{})
	go w.run(from, encoding, decode)
	return w, nil
}

// deflate decodes deflate with or without the header of zlib.
func deflate(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	if first, err := in.Peek(1); err != nil || first[0]&0x0f != 8 {
		return flate.NewReader(in), err
	}
	return zlib.NewReader(in)
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

func (w *Writer) run(from *io.PipeReader, encoding string, decode func(io.Reader) (io.ReadCloser, error)) {
	defer close(w.done)
	if err := w.decode(from, decode); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.err = fmt.Errorf("content encoding %s: %w", encoding, err)
	}
	_ = from.CloseWithError(io.ErrClosedPipe)
}

func (w *Writer) decode(from io.Reader, decode func(io.Reader) (io.ReadCloser, error)) (err error) {
	defer func() {
		if p := recover(); p != nil { // a fault of a decoder must not end the process
			err = fmt.Errorf("decoder: %v", p)
		}
	}()
	in := bufio.NewReader(from)
	if _, err := in.Peek(1); err != nil {
		return nil // an empty body
	}
	text, err := decode(in)
	if err != nil {
		return err
	}
	defer text.Close()
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
