package wire

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// The longest that is read, in bytes.
const (
	MaxBody   = 16 << 10
	MaxSigned = 1024 // of what is signed: see pass.MaxText
	MaxKey    = 64   // of an Idempotency-Key
)

// Bodies lends room for request bodies.
type Bodies struct{ pool sync.Pool }

// Read reads the body of r, of a content type that is JSON. It may be empty. The text is
// valid until Give.
func (b *Bodies) Read(r *http.Request) (data []byte, room *[MaxBody + 1]byte, f *RequestError) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil, nil
	}
	if r.ContentLength > MaxBody {
		return nil, nil, tooLarge()
	}
	room, _ = b.pool.Get().(*[MaxBody + 1]byte)
	if room == nil {
		room = new([MaxBody + 1]byte)
	}
	n, err := io.ReadFull(r.Body, room[:])
	switch {
	case err == nil:
		return nil, room, tooLarge()
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, room, &RequestError{Detail: "the body cannot be read to its end"}
	case r.ContentLength > 0 && int64(n) != r.ContentLength:
		return nil, room, &RequestError{Detail: "the body ends before its length"}
	}
	if f := isJSON(r.Header); n > 0 && f != nil {
		return nil, room, f
	}
	return room[:n], room, nil
}

// Give takes the room of a body back.
func (b *Bodies) Release(room *[MaxBody + 1]byte) {
	if room != nil {
		b.pool.Put(room)
	}
}

func tooLarge() *RequestError {
	return &RequestError{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is above %d bytes", MaxBody)}
}

// isJSON checks the content type.
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
	return &RequestError{Status: http.StatusUnsupportedMediaType, Detail: "want a body of the type application/json, in UTF-8"}
}

// One is the value of a field that may stand there once.
func SingleHeader(h http.Header, name string) (string, *RequestError) {
	switch v := h[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", &RequestError{Field: name, Detail: name + ": stands there twice"}
}

// IdempotencyKey reads the Idempotency-Key; empty if there is none.
func IdempotencyKey(h http.Header) (string, *RequestError) {
	key, f := SingleHeader(h, "Idempotency-Key")
	if f != nil {
		return "", f
	}
	ok := len(key) <= MaxKey && (key != "" || len(h["Idempotency-Key"]) == 0)
	for i := range len(key) {
		ok = ok && key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", &RequestError{Field: "Idempotency-Key", Detail: fmt.Sprintf("Idempotency-Key: %.70q: want 1 to %d printable characters", key, MaxKey)}
	}
	return key, nil
}

// SignedText checks a text that somebody signed, before anybody looks at its signature.
func SignedText(name, s string) *RequestError {
	if len(s) > MaxSigned {
		return &RequestError{Field: name, Detail: fmt.Sprintf("%s: %d bytes: want at most %d", name, len(s), MaxSigned)}
	}
	return nil
}

// OrEmpty is a body, or that of none.
func OrEmpty(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}
