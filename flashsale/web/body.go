package web

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

const (
	maxBody   = 16 << 10
	maxSigned = 1024 // of what is signed: see pass.MaxText
	maxKey    = 64   // of an Idempotency-Key
)

// bodies lends room for request bodies.
type bodies struct{ pool sync.Pool }

// read reads the body of r, of a content type that is JSON. It may be empty. The text is
// valid until give.
func (b *bodies) read(r *http.Request) (data []byte, room *[maxBody + 1]byte, f *fault) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, nil, tooLarge()
	}
	room, _ = b.pool.Get().(*[maxBody + 1]byte)
	if room == nil {
		room = new([maxBody + 1]byte)
	}
	n, err := io.ReadFull(r.Body, room[:])
	switch {
	case err == nil:
		return nil, room, tooLarge()
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, room, &fault{detail: "the body cannot be read to its end"}
	case r.ContentLength > 0 && int64(n) != r.ContentLength:
		return nil, room, &fault{detail: "the body ends before its length"}
	}
	if f := isJSON(r.Header); n > 0 && f != nil {
		return nil, room, f
	}
	return room[:n], room, nil
}

func (b *bodies) give(room *[maxBody + 1]byte) {
	if room != nil {
		b.pool.Put(room)
	}
}

func tooLarge() *fault {
	return &fault{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body is above %d bytes", maxBody)}
}

// isJSON checks the content type.
func isJSON(h http.Header) *fault {
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
	return &fault{status: http.StatusUnsupportedMediaType, detail: "want a body of the type application/json, in UTF-8"}
}

// one is the value of a field that may stand there once.
func one(h http.Header, name string) (string, *fault) {
	switch v := h[name]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", &fault{field: name, detail: name + ": stands there twice"}
}

// idempotencyKey reads the Idempotency-Key; empty if there is none.
func idempotencyKey(h http.Header) (string, *fault) {
	key, f := one(h, "Idempotency-Key")
	if f != nil {
		return "", f
	}
	ok := len(key) <= maxKey && (key != "" || len(h["Idempotency-Key"]) == 0)
	for i := range len(key) {
		ok = ok && key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", &fault{field: "Idempotency-Key", detail: fmt.Sprintf("Idempotency-Key: %.70q: want 1 to %d printable characters", key, maxKey)}
	}
	return key, nil
}

// signedText checks a text that somebody signed, before anybody looks at its signature.
func signedText(name, s string) *fault {
	if len(s) > maxSigned {
		return &fault{field: name, detail: fmt.Sprintf("%s: %d bytes: want at most %d", name, len(s), maxSigned)}
	}
	return nil
}

// isPayment reports whether s can be a payment's ID.
func isPayment(s string) bool {
	return s != "" && len(s) <= 64 && isBase64(s) && !strings.Contains(s, "_")
}
