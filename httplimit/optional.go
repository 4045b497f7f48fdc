package httplimit

import (
	"bufio"
	"net"
	"net/http"
)

// flusher is the [http.Flusher] of a response.
type flusher struct{ w *response }

// Flush implements [http.Flusher].
func (f flusher) Flush() { _ = f.w.FlushError() }

// hijacker is the [http.Hijacker] of a response.
type hijacker struct{ w *response }

// Hijack implements [http.Hijacker].
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.w.ResponseWriter).Hijack()
	if err == nil {
		h.w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
