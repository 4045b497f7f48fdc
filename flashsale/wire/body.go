package wire

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// Limits of what is read, in bytes.
const (
	MaxBody   = 16 << 10
	MaxSigned = 1024 // of a signed text; see pass.MaxText
)

// smallBody is the size of the buffer of a body that is shorter, as most are. A request keeps its
// buffer until its response, and buffers of hundreds of requests have to fit into the cache of a
// processor.
const smallBody = 512

// Bodies reads request bodies into reused buffers. The zero value works.
type Bodies struct{ small, large sync.Pool }

// Read reads the body of r, which must be JSON or empty. data is valid until Release of the
// buffer.
func (b *Bodies) Read(r *http.Request) (data []byte, buffer *[]byte, f *RequestError) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil, nil
	}
	if r.ContentLength > MaxBody {
		return nil, nil, tooLarge()
	}
	size := MaxBody + 1
	if r.ContentLength > 0 && r.ContentLength < smallBody {
		size = smallBody
	}
	if buffer, _ = b.pool(size).Get().(*[]byte); buffer == nil {
		buffer = new(make([]byte, size))
	}
	n, err := io.ReadFull(r.Body, *buffer)
	switch {
	case n > MaxBody:
		return nil, buffer, tooLarge()
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, buffer, &RequestError{Detail: "body: cannot read it to its end"}
	case r.ContentLength > 0 && int64(n) != r.ContentLength:
		return nil, buffer, &RequestError{Detail: "body: length differs from its Content-Length"}
	}
	if f := isJSON(r.Header); n > 0 && f != nil {
		return nil, buffer, f
	}
	return (*buffer)[:n], buffer, nil
}

// pool returns the pool of buffers of a size.
func (b *Bodies) pool(size int) *sync.Pool {
	if size == smallBody {
		return &b.small
	}
	return &b.large
}

// Release returns the buffer of a body.
func (b *Bodies) Release(buffer *[]byte) {
	if buffer != nil {
		b.pool(len(*buffer)).Put(buffer)
	}
}

func tooLarge() *RequestError {
	return &RequestError{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("body: got more than %d bytes", MaxBody)}
}

// isJSON checks the Content-Type.
func isJSON(h http.Header) *RequestError {
	types := h["Content-Type"]
	if len(types) == 1 && types[0] == "application/json" {
		return nil
	}
	if len(types) == 1 {
		media, params, err := mime.ParseMediaType(types[0])
		charset, has := params["charset"]
		if err == nil && media == "application/json" && (!has || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return &RequestError{Status: http.StatusUnsupportedMediaType, Detail: "Content-Type: want application/json in UTF-8"}
}

// SingleHeader returns the value of a header field that may be given at most once.
func SingleHeader(h http.Header, name string) (string, *RequestError) {
	switch v := h[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", &RequestError{Field: name, Detail: name + ": given twice"}
}

// IdempotencyKey returns the Idempotency-Key, or an empty string if there is none.
func IdempotencyKey(h http.Header) (string, *RequestError) {
	key, f := SingleHeader(h, "Idempotency-Key")
	if f != nil {
		return "", f
	}
	if !sale.IsKey(key) || key == "" && len(h["Idempotency-Key"]) > 0 {
		return "", &RequestError{Field: "Idempotency-Key", Detail: fmt.Sprintf("Idempotency-Key: got %.70q, want 1 to %d printable characters", key, sale.MaxKey)}
	}
	return key, nil
}

// SignedText checks the length of a signed text, before its signature is verified.
func SignedText(name, s string) *RequestError {
	if len(s) > MaxSigned {
		return &RequestError{Field: name, Detail: fmt.Sprintf("%s: got %d bytes, want at most %d", name, len(s), MaxSigned)}
	}
	return nil
}

// OrEmpty returns body, or an empty JSON object if it is empty.
func OrEmpty(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}
