// Package optional gives a wrapped http.ResponseWriter the optional interfaces of the original.
package optional

import (
	"io"
	"net/http"
)

// A Writer is a ResponseWriter that wraps another one.
type Writer interface {
	http.ResponseWriter
	io.ReaderFrom
	io.StringWriter
	FlushError() error
	Unwrap() http.ResponseWriter
}

// Wrap returns w with those of http.Flusher, http.Hijacker, http.Pusher and http.CloseNotifier that
// server implements: f and h, and the latter two of the server. Handlers detect by them what a
// connection supports.
func Wrap(server http.ResponseWriter, w Writer, f http.Flusher, h http.Hijacker) http.ResponseWriter {
	_, flushes := server.(http.Flusher)
	_, hijacks := server.(http.Hijacker)
	pusher, pushes := server.(http.Pusher)
	notifier, notifies := server.(closeNotifier)
	set := 0
	for i, has := range []bool{flushes, hijacks, pushes, notifies} {
		if has {
			set |= 1 << i
		}
	}
	switch set {
	case 0b0001:
		return struct {
			Writer
			http.Flusher
		}{w, f}
	case 0b0010:
		return struct {
			Writer
			http.Hijacker
		}{w, h}
	case 0b0011:
		return struct {
			Writer
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case 0b0100:
		return struct {
			Writer
			http.Pusher
		}{w, pusher}
	case 0b0101:
		return struct {
			Writer
			http.Flusher
			http.Pusher
		}{w, f, pusher}
	case 0b0110:
		return struct {
			Writer
			http.Hijacker
			http.Pusher
		}{w, h, pusher}
	case 0b0111:
		return struct {
			Writer
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, pusher}
	case 0b1000:
		return struct {
			Writer
			closeNotifier
		}{w, notifier}
	case 0b1001:
		return struct {
			Writer
			http.Flusher
			closeNotifier
		}{w, f, notifier}
	case 0b1010:
		return struct {
			Writer
			http.Hijacker
			closeNotifier
		}{w, h, notifier}
	case 0b1011: // HTTP/1.1
		return struct {
			Writer
			http.Flusher
			http.Hijacker
			closeNotifier
		}{w, f, h, notifier}
	case 0b1100:
		return struct {
			Writer
			http.Pusher
			closeNotifier
		}{w, pusher, notifier}
	case 0b1101: // HTTP/2
		return struct {
			Writer
			http.Flusher
			http.Pusher
			closeNotifier
		}{w, f, pusher, notifier}
	case 0b1110:
		return struct {
			Writer
			http.Hijacker
			http.Pusher
			closeNotifier
		}{w, h, pusher, notifier}
	case 0b1111:
		return struct {
			Writer
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
