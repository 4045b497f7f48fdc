package httplimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

type (
	flushes struct{}
	hijacks struct{}
	pushes  struct{}
	closes  struct{}
)

func (flushes) Flush()                                       {}
func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
func (pushes) Push(string, *http.PushOptions) error          { return http.ErrNotSupported }
func (closes) CloseNotify() <-chan bool                      { return nil }

// interfaces returns the optional interfaces of w.
func interfaces(w http.ResponseWriter) (has [4]bool) {
	_, has[0] = w.(http.Flusher)
	_, has[1] = w.(http.Hijacker)
	_, has[2] = w.(http.Pusher)
	_, has[3] = w.(interface{ CloseNotify() <-chan bool })
	return has
}

// TestOptionalInterfaces checks that a handler behind a policy that counts failures finds the
// optional interfaces that the writer has, and no others, for every combination and on real
// connections.
func TestOptionalInterfaces(t *testing.T) {
	var got [4]bool
	var h http.Handler
	for _, count := range []policy.Count{policy.CountAdmitted, policy.CountFailures} {
		m, err := httplimit.New(fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("1000/s"), Count: count}), httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h = m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			got = interfaces(w)
			if _, err := io.WriteString(w, "x"); err != nil {
				t.Error(err)
			}
		}))
		type writer = http.ResponseWriter
		base := func() writer { return struct{ writer }{httptest.NewRecorder()} }
		for _, w := range []writer{
			base(),
			struct {
				writer
				flushes
			}{base(), flushes{}},
			struct {
				writer
				hijacks
			}{base(), hijacks{}},
			struct {
				writer
				flushes
				hijacks
			}{base(), flushes{}, hijacks{}},
			struct {
				writer
				pushes
			}{base(), pushes{}},
			struct {
				writer
				flushes
				pushes
			}{base(), flushes{}, pushes{}},
			struct {
				writer
				hijacks
				pushes
			}{base(), hijacks{}, pushes{}},
			struct {
				writer
				flushes
				hijacks
				pushes
			}{base(), flushes{}, hijacks{}, pushes{}},
			struct {
				writer
				closes
			}{base(), closes{}},
			struct {
				writer
				flushes
				closes
			}{base(), flushes{}, closes{}},
			struct {
				writer
				hijacks
				closes
			}{base(), hijacks{}, closes{}},
			struct {
				writer
				flushes
				hijacks
				closes
			}{base(), flushes{}, hijacks{}, closes{}},
			struct {
				writer
				pushes
				closes
			}{base(), pushes{}, closes{}},
			struct {
				writer
				flushes
				pushes
				closes
			}{base(), flushes{}, pushes{}, closes{}},
			struct {
				writer
				hijacks
				pushes
				closes
			}{base(), hijacks{}, pushes{}, closes{}},
			struct {
				writer
				flushes
				hijacks
				pushes
				closes
			}{base(), flushes{}, hijacks{}, pushes{}, closes{}},
		} {
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if want := interfaces(w); got != want {
				t.Errorf("count %s: the handler finds %v, want %v (flush, hijack, push, close)", count, got, want)
			}
		}
	}
	for http2, want := range map[bool][4]bool{false: {true, true, false, true}, true: {true, false, true, true}} {
		srv, _ := listening(t, http2, byStatus, func(w http.ResponseWriter, _ *http.Request) { got = interfaces(w) })
		read(t, srv, http.MethodGet)
		if got != want {
			t.Errorf("HTTP/2 %t: the handler finds %v, want %v", http2, got, want)
		}
	}
}
