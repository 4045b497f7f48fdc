package limittest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
)

// An Adapter connects the suite to a web framework.
type Adapter struct {
	// Serve starts a server for app on the loopback interface, stops it when the test
	// ends, and returns its URL.
	Serve func(t testing.TB, app App) (url string)

	// ServeLimit starts a server whose GET /text responds with the text hello, behind the
	// adapter's Limit of store and limit. The key function returns the user that a
	// middleware in front has put into the context of the framework: the header X-User.
	ServeLimit func(t testing.TB, store weir.Store, limit string) (url string)

	// HijackedHoldsNoSlot means that a concurrency slot is free as soon as a connection is
	// hijacked, because the framework does not report its end.
	HijackedHoldsNoSlot bool
}

// An App describes a server.
type App struct {
	Recover   bool                  // a middleware in front of Limit answers 500 for a panic
	Limit     *httplimit.Middleware // in front of all routes, and of paths without one
	Endpoints []Endpoint

	// Protect, if it has a Chain, is in front of Limit.
	Protect httplimit.ProtectConfig
}

// An Endpoint is one route of an App. Its path has no pattern.
type Endpoint struct {
	Method, Path string
	Limit        *httplimit.Middleware // of this endpoint or its group; nil if there is none
	Handle       func() Response       // it may panic
}

// A Response describes the response of a handler.
type Response struct {
	Status int // 200 if 0
	Header map[string]string
	Body   string

	// Events are sent instead of Body, each followed by a flush and a call of Flushed.
	Events  []string
	Flushed func()

	// Hijack, if not nil, is called with the hijacked connection, and nothing is sent.
	Hijack func(io.ReadWriter)
}

// Write sends r to w. Adapters of frameworks whose responses are an http.ResponseWriter use it.
func (r Response) Write(w http.ResponseWriter) error {
	if r.Hijack != nil {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		r.Hijack(flushConn{rw})
		return nil
	}
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	if r.Status != 0 {
		w.WriteHeader(r.Status)
	}
	for _, e := range r.Events {
		if _, err := io.WriteString(w, e); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		r.Flushed()
	}
	if r.Body == "" {
		return nil
	}
	_, err := io.WriteString(w, r.Body)
	return err
}

// flushConn flushes after each write.
type flushConn struct{ rw *bufio.ReadWriter }

func (f flushConn) Read(b []byte) (int, error) { return f.rw.Read(b) }

func (f flushConn) Write(b []byte) (int, error) {
	n, err := f.rw.Write(b)
	if err == nil {
		err = f.rw.Flush()
	}
	return n, err
}

// serveHTTP serves app by net/http, with which adapters are compared.
func serveHTTP(t testing.TB, app App) (url string) {
	mux := http.NewServeMux()
	for _, r := range app.Endpoints {
		mux.HandleFunc(r.Method+" "+r.Path, func(w http.ResponseWriter, _ *http.Request) { _ = r.Handle().Write(w) })
	}
	server := httptest.NewServer(app.Limit.Wrap(mux))
	t.Cleanup(server.Close)
	return server.URL
}
