package budget

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
)

// The errors of a Reader and a Meter. The text of each is a reason for metrics.
var (
	// ErrNoUsage reports a response without counts, or without its last event.
	ErrNoUsage = errors.New("no_usage")
	// ErrBadUsage reports a count that is no whole number from 0 to MaxTokens, or a response
	// that cannot be read.
	ErrBadUsage = errors.New("bad_usage")
	// ErrUnknownModel reports a model without a price.
	ErrUnknownModel = errors.New("unknown_model")
)

// Usage has the tokens of a response. The counts do not overlap.
type Usage struct {
	// Model is the name of the model in the response; "" if it has none.
	Model string

	Input        int64 // not cached
	Cached       int64 // read from a cache
	CacheWrite   int64 // written to a cache for a short time
	CacheWrite1h int64 // written to a cache for an hour
	Output       int64 // generated, with reasoning
}

// maxDecoded bounds the bytes of a compressed response after decompression.
const maxDecoded = 256 << 20

// A Reader finds the usage in a response. Write it the body, as it is sent. It keeps at most about
// 1 MiB. It is not safe for concurrent use.
type Reader struct {
	format Format
	scan   scanner
	events *events // nil if the body is no event stream
	counts counts
	model  string
	err    error // the body cannot be read

	objects int64 // with content
	content int64 // bytes that the model generated

	pipe *io.PipeWriter // of a compressed body
	done chan struct{}
}

// NewReader returns a Reader of a response with the header fields Content-Type and
// Content-Encoding. It decodes gzip and deflate. Close must be called at the end of the body.
func NewReader(f Format, contentType, contentEncoding string) *Reader {
	r := &Reader{format: f}
	r.scan.object = r.object
	media, _, _ := mime.ParseMediaType(contentType)
	switch media {
	case "text/event-stream":
		r.events = &events{to: &r.scan}
	case "application/vnd.amazon.eventstream":
		r.err = fmt.Errorf("%w: content type %s: binary event streams cannot be read", ErrBadUsage, media)
	}
	switch encoding := strings.ToLower(strings.TrimSpace(contentEncoding)); encoding {
	case "", "identity":
	case "gzip", "x-gzip", "deflate":
		var from *io.PipeReader
		from, r.pipe = io.Pipe()
		r.done = make(chan struct{})
		go r.decode(from, encoding)
	default:
		r.err = fmt.Errorf("%w: content encoding %q: want gzip, deflate or none", ErrBadUsage, encoding)
	}
	return r
}

// Write implements [io.Writer]. It accepts every byte.
func (r *Reader) Write(p []byte) (int, error) {
	switch {
	case r.pipe != nil:
		_, _ = r.pipe.Write(p) // the error is in r.err
	case r.err == nil:
		r.read(p)
	}
	return len(p), nil
}

func (r *Reader) read(p []byte) {
	if r.events != nil {
		r.events.write(p)
	} else {
		r.scan.write(p)
	}
}

// decode reads the decompressed body.
func (r *Reader) decode(from *io.PipeReader, encoding string) {
	defer close(r.done)
	err := r.decompress(from, encoding)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a stream that was cut has its counts so far
		r.err = fmt.Errorf("%w: content encoding %s: %w", ErrBadUsage, encoding, err)
	}
	_ = from.CloseWithError(io.ErrClosedPipe)
}

func (r *Reader) decompress(from io.Reader, encoding string) error {
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
	for total := 0; total < maxDecoded; {
		n, err := text.Read(buf)
		r.read(buf[:n])
		total += n
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("want at most %d bytes", maxDecoded)
}

// Close ends the body. Close again has no effect. It returns nil.
func (r *Reader) Close() error {
	if r.pipe != nil {
		_ = r.pipe.Close()
		<-r.done
		r.pipe = nil
	}
	r.scan.reset()
	return nil
}

// object reads one JSON object of the body.
func (r *Reader) object(text []byte) {
	if !repeats(text) {
		r.content += int64(r.scan.content)
		if r.scan.content > 0 {
			r.objects++
		}
	}
	if !mayCount(text) && r.model != "" {
		return
	}
	e := parse(text)
	if e == nil {
		return
	}
	format := r.format
	if format == "" || format == Auto {
		if format = detect(e); format == "" {
			return
		}
		if mayCount(text) {
			r.format = format
		}
	}
	if model := r.counts.read(format, e); model != "" {
		r.model = model
	}
}

// repeats reports whether an event has content that earlier events had too.
func repeats(text []byte) bool {
	head := text[:min(len(text), 80)]
	return bytes.Contains(head, []byte(`"type":"response.`)) && !bytes.Contains(head, []byte(`.delta"`))
}

// Usage returns the counts of the body so far. After an error, they are those that were read, and
// the error wraps ErrNoUsage or ErrBadUsage. Call it after Close.
func (r *Reader) Usage() (Usage, error) {
	u, err := r.counts.usage()
	u.Model = r.model
	switch {
	case r.err != nil:
		err = r.err
	case err == nil || errors.Is(err, ErrBadUsage) || !r.scan.broken:
	default:
		err = fmt.Errorf("%w: a JSON object is incomplete, or longer than %d bytes", ErrBadUsage, maxObject)
	}
	return u, err
}

// Generated estimates the output tokens of the body so far: the larger of the events with content
// and a quarter of the bytes of their text. Call it after Close.
func (r *Reader) Generated() int64 {
	return max(r.objects, (r.content+3)/4)
}
