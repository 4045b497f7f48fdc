package forwardauth

import (
	"net/http"
	"strconv"
)

// StatusField is the response field with the status of a refusal that was sent with
// another.
const StatusField = "Weir-Status"

type writerKey struct{}

// A verdict is the answer to a proxy. It is a refusal unless admit was reached.
type responseWriter struct {
	http.ResponseWriter
	denied            int // the status of a refusal; 0 for its own
	admitted, written bool
}

// admit is what stands behind the limits.
func admit(w http.ResponseWriter, r *http.Request) {
	if v, ok := r.Context().Value(writerKey{}).(*responseWriter); ok {
		v.admitted = true
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// WriteHeader implements [http.ResponseWriter].
func (v *responseWriter) WriteHeader(status int) {
	if v.written || status < 200 {
		return
	}
	v.written = true
	sent := status
	switch {
	case v.admitted:
	case v.denied != 0:
		sent = v.denied
	case status < 300: // which every proxy takes for a yes
		sent = http.StatusTooManyRequests
	}
	if sent != status || v.denied != 0 && !v.admitted {
		v.Header().Set(StatusField, strconv.Itoa(status))
	}
	if v.withoutBody() {
		v.Header().Del("Content-Type")
		v.Header().Set("Content-Length", "0")
	}
	v.ResponseWriter.WriteHeader(sent)
}

// bare reports whether the answer has no body: a refusal for nginx, which reads none and
// would close the connection for it.
func (v *responseWriter) withoutBody() bool { return v.denied != 0 && !v.admitted }

// Write implements [http.ResponseWriter].
func (v *responseWriter) Write(b []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	if v.withoutBody() {
		return len(b), nil
	}
	return v.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (v *responseWriter) Unwrap() http.ResponseWriter { return v.ResponseWriter }
