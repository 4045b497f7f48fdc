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

// optional returns w with those of http.Flusher, http.Hijacker, http.Pusher and
// http.CloseNotifier that the server's writer implements. Handlers detect by them what a
// connection supports.
func (w *response) optional() http.ResponseWriter {
	_, flushes := w.ResponseWriter.(http.Flusher)
	_, hijacks := w.ResponseWriter.(http.Hijacker)
	pusher, pushes := w.ResponseWriter.(http.Pusher)
	notifier, notifies := w.ResponseWriter.(closeNotifier)
	f, h := flusher{w}, hijacker{w}
	set := 0
	for i, has := range []bool{flushes, hijacks, pushes, notifies} {
		if has {
			set |= 1 << i
		}
	}
	switch set {
	case 0b0001:
		return struct {
			*response
			http.Flusher
		}{w, f}
	case 0b0010:
		return struct {
			*response
			http.Hijacker
		}{w, h}
	case 0b0011:
		return struct {
			*response
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case 0b0100:
		return struct {
			*response
			http.Pusher
		}{w, pusher}
	case 0b0101:
		return struct {
			*response
			http.Flusher
			http.Pusher
		}{w, f, pusher}
	case 0b0110:
		return struct {
			*response
			http.Hijacker
			http.Pusher
		}{w, h, pusher}
	case 0b0111:
		return struct {
			*response
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, pusher}
	case 0b1000:
		return struct {
			*response
			closeNotifier
		}{w, notifier}
	case 0b1001:
		return struct {
			*response
			http.Flusher
			closeNotifier
		}{w, f, notifier}
	case 0b1010:
		return struct {
			*response
			http.Hijacker
			closeNotifier
		}{w, h, notifier}
	case 0b1011: // HTTP/1.1
		return struct {
			*response
			http.Flusher
			http.Hijacker
			closeNotifier
		}{w, f, h, notifier}
	case 0b1100:
		return struct {
			*response
			http.Pusher
			closeNotifier
		}{w, pusher, notifier}
	case 0b1101: // HTTP/2
		return struct {
			*response
			http.Flusher
			http.Pusher
			closeNotifier
		}{w, f, pusher, notifier}
	case 0b1110:
		return struct {
			*response
			http.Hijacker
			http.Pusher
			closeNotifier
		}{w, h, pusher, notifier}
	case 0b1111:
		return struct {
			*response
			http.Flusher
			http.Hijacker
			http.Pusher
			closeNotifier
		}{w, f, h, pusher, notifier}
	}
	return w
}

// closeNotifier is the deprecated http.CloseNotifier, which old handlers require.
type closeNotifier interface{ CloseNotify() <-chan bool }
