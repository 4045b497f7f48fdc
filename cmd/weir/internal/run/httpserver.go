package run

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/plainhttp"
)

// Limits on a client before its request is decoded, and between requests.
const (
	readHeaderTimeout = 10 * time.Second
	requestTimeout    = 30 * time.Second // of interfaces with small requests, bodies included
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 250
)

// canceledTimeout bounds the wait for handlers whose request was canceled.
const canceledTimeout = time.Second

// An httpServer serves HTTP/1.1 and HTTP/2, the latter also without TLS. Unlike
// http.Server, its Shutdown waits for upgraded connections too.
type httpServer struct {
	server http.Server
	plain  atomic.Pointer[plainhttp.Listener] // nil with TLS, and before Serve
	cancel context.CancelFunc                 // of every request
	active sync.WaitGroup                     // requests, upgraded connections included
}

// newHTTPServer returns a server for handler. A request has to arrive completely within
// readTimeout; 0 leaves that to the handler. Without t it serves plain text.
func newHTTPServer(handler http.Handler, readTimeout time.Duration, t *tls.Config, log *slog.Logger) *httpServer {
	ctx, cancel := context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &httpServer{cancel: cancel}
	s.server = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.active.Add(1)
			defer s.active.Done()
			handler.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,

		DisableGeneralOptionsHandler: true, // OPTIONS * counts like every request
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		TLSConfig:                    t,
	}
	return s
}

// Serve serves the connections of l, with TLS if there is a certificate.
func (s *httpServer) Serve(l net.Listener) error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(l, "", "")
	}
	plain := plainhttp.Listen(&s.server, l, plainhttp.Config{})
	s.plain.Store(plain)
	return s.server.Serve(plain)
}

// Shutdown stops accepting connections and waits for the requests in flight. When ctx
// ends, it cancels them and returns an error.
func (s *httpServer) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if plain := s.plain.Load(); plain != nil {
		err = cmp.Or(err, plain.Shutdown(ctx))
	}
	if err == nil {
		err = s.wait(ctx) // http.Server does not wait for hijacked connections
	}
	s.cancel()
	s.server.Close()
	last, cancel := context.WithTimeout(context.Background(), canceledTimeout)
	defer cancel()
	s.wait(last)
	return err
}

func (s *httpServer) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
