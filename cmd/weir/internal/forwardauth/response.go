package forwardauth

import (
	"net/http"
	"strconv"
)

// StatusField is the response field with the original status of a denial.
const StatusField = "Weir-Status"

type writerKey struct{}

// A responseWriter writes the response to a proxy. It is a denial unless admit was
// called.
type responseWriter struct {
	http.ResponseWriter
	denied            int // the status of denials; 0 for that of the policy
	admitted, written bool
}

// admit is the handler behind the limits.
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
	case status < 300: // every proxy would forward the request
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

// withoutBody reports whether the response has no body: nginx does not read that of a
// denial, and would close the connection.
func (v *responseWriter) withoutBody() bool { return v.denied != 0 && !v.admitted }

// Write implements [http.ResponseWriter].
func (v *responseWriter) Write(b []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	if v.withoutBody() {
		return len(b), nil
	}
	return v.ResponseWriter.Write(b)
}

// Unwrap supports [http.ResponseController].
func (v *responseWriter) Unwrap() http.ResponseWriter { return v.ResponseWriter }
