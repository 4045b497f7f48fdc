package weirgin

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// A writer reports to counted what gin sends. In gin a status may change until it is sent,
// so counted receives it then. Counted writes to the embedded writer of gin.
type writer struct {
	gin.ResponseWriter
	counted http.ResponseWriter
	begun   bool
}

// begin reports the final status.
func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	w.counted.WriteHeader(w.Status())
}

// WriteHeaderNow implements [gin.ResponseWriter].
func (w *writer) WriteHeaderNow() {
	w.begin()
	w.ResponseWriter.WriteHeaderNow()
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	return w.counted.Write(b)
}

// WriteString implements [gin.ResponseWriter].
func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush implements [http.Flusher].
func (w *writer) Flush() {
	w.begin()
	_ = http.NewResponseController(w.counted).Flush()
}

// Hijack implements [http.Hijacker].
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.counted).Hijack()
}

// Unwrap returns the writer for an [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.counted }
