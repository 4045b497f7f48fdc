package gateway

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

const requestIDHeader = "X-Request-Id"

// maxRequestID is the maximum length of an ID from a trusted proxy.
const maxRequestID = 128

func (g *Gateway) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if id == "" || len(id) > maxRequestID || !g.fromTrustedProxy(r) {
			id = rand.Text()
			r.Header.Set(requestIDHeader, id)
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r)
	})
}

// accessLog logs one of n requests when it ends.
func (g *Gateway) accessLog(n int, next http.Handler) http.Handler {
	var count atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1)%uint64(n) != 0 || !g.log.Enabled(r.Context(), slog.LevelDebug) {
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			g.log.LogAttrs(r.Context(), slog.LevelDebug, "request",
				slog.String("method", r.Method), slog.String("host", r.Host), slog.String("path", r.URL.Path),
				slog.String("peer", r.RemoteAddr), slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes),
				slog.String("took", time.Since(start).String()), slog.String("id", r.Header.Get(requestIDHeader)))
		}()
		next.ServeHTTP(rec, r)
	})
}

// A recorder records the status and the size of a response. Flush, Hijack and deadlines
// reach the connection through Unwrap.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status < 200 { // ignores interim responses except 101
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}
