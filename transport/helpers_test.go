package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/transport"
)

// A server is a Base that answers by a function, and counts.
type server struct {
	mu     sync.Mutex
	calls  int
	open   int // bodies that are not closed
	answer func(call int, r *http.Request) (*http.Response, error)
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	if s.answer == nil {
		return s.response(r, 200), nil
	}
	resp, err := s.answer(call, r)
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

// response is an answer with fields given as name and value.
func (s *server) response(r *http.Request, status int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	return &http.Response{StatusCode: status, Header: h, Request: r, ContentLength: 2, Body: &body{strings.NewReader("ok"), func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}}}
}

func (s *server) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// A body calls closed when it is closed for the first time.
type body struct {
	io.Reader
	closed func()
}

func (b *body) Close() error {
	if b.closed != nil {
		b.closed()
		b.closed = nil
	}
	return nil
}
func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, s := range texts {
		ls = append(ls, weir.MustLimit(s))
	}
	return ls
}

// open returns a Transport that does not wait unless c sets MaxWait.
func open(t testing.TB, c transport.Config) *transport.Transport {
	t.Helper()
	if c.MaxWait == 0 {
		c.MaxWait = weir.NoWait
	}
	if c.Store == nil && len(c.Limits) > 0 {
		c.Store = fakestore.Memory(t)
	}
	rt, err := transport.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func request(t testing.TB, method, url, content string) *http.Request {
	t.Helper()
	var b io.Reader
	if content != "" {
		b = strings.NewReader(content)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, url, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const api = "http://api.example.com/quote"

// get sends a GET and closes the answer.
func get(t testing.TB, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	return do(rt, request(t, "GET", url, ""))
}

func do(rt http.RoundTripper, r *http.Request) (int, error) {
	resp, err := rt.RoundTrip(r)
	if err != nil {
		if resp != nil {
			return 0, errors.New("both a response and an error")
		}
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// denial is err as a *transport.Denied.
func denial(t testing.TB, err error) *transport.Denied {
	t.Helper()
	var d *transport.Denied
	if !errors.As(err, &d) || !errors.Is(err, transport.ErrDenied) {
		t.Fatalf("error = %v, want a *transport.Denied", err)
	}
	return d
}
