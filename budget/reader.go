package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"

	"github.com/floodweir/weir/internal/decoded"
)

// The errors of a response without a cost.
var (
	// ErrNoUsage reports a response without a cost, or without its last event.
	ErrNoUsage = errors.New("budget: response without a cost")
	// ErrBadUsage reports a number that is no cost, such as a negative one, or a response
	// that cannot be read.
	ErrBadUsage = errors.New("budget: invalid cost in the response")
	// ErrUnknownModel reports a model without a price.
	ErrUnknownModel = errors.New("budget: model without a price")
	// ErrDisconnected reports a client that disconnected before the cost was known.
	ErrDisconnected = errors.New("budget: client disconnected before the cost was known")
	// ErrExhausted reports a stream that was ended because its budget was exhausted.
	ErrExhausted = errors.New("budget: stream ended: budget exhausted")
)

// Reason returns the reason of an error for metrics: no_usage, bad_usage, unknown_model,
// disconnected or exhausted.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrExhausted):
		return "exhausted"
	case errors.Is(err, ErrDisconnected):
		return "disconnected"
	case errors.Is(err, ErrUnknownModel):
		return "unknown_model"
	case errors.Is(err, ErrBadUsage):
		return "bad_usage"
	}
	return "no_usage"
}

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

	body *decoded.Writer
}

// NewReader returns a Reader of a response with the header fields Content-Type and
// Content-Encoding. It decodes gzip, deflate and the encodings of more, by name in lower case, such
// as "br". A decoder must bound its memory, and pass bytes on as soon as they can be decoded. A body
// has at most 256 MiB after decoding. Close must be called at the end of the body.
func NewReader(f Format, contentType, contentEncoding string, more map[string]func(io.Reader) (io.ReadCloser, error)) *Reader {
	r := &Reader{format: f}
	r.scan.object = r.object
	media, _, _ := mime.ParseMediaType(contentType)
	switch media {
	case "text/event-stream":
		r.events = &events{to: &r.scan}
	case "application/vnd.amazon.eventstream":
		r.err = fmt.Errorf("%w: content type %s: binary event streams cannot be read", ErrBadUsage, media)
	}
	var err error
	if r.body, err = decoded.New(contentEncoding, more, r.read); err != nil {
		r.err = fmt.Errorf("%w: %w", ErrBadUsage, err)
	}
	return r
}

// Write implements [io.Writer]. It accepts every byte.
func (r *Reader) Write(p []byte) (int, error) {
	if r.err == nil {
		_, _ = r.body.Write(p)
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

// Close ends the body. Close again has no effect. It returns nil.
func (r *Reader) Close() error {
	if r.body != nil {
		if err := r.body.Close(); err != nil && r.err == nil {
			r.err = fmt.Errorf("%w: %w", ErrBadUsage, err)
		}
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
