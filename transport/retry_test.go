package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/transport"
)

// TestRetries checks that repeatable requests are repeated after the delay that the server
// asked for, and are charged each time.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		content string
		change  func(*http.Request)
		answers []string // "status retry-after"
		config  transport.Config
		status  int
		calls   int
		took    time.Duration
	}{
		{name: "none", method: "GET", answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute}, status: 429, calls: 1},
		{name: "once", method: "GET", answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 1}, status: 200, calls: 2, took: time.Second},
		{name: "at once", method: "GET", answers: []string{"503 0"}, config: transport.Config{Retries: 1}, status: 200, calls: 2},
		{name: "twice", method: "PUT", content: "body", answers: []string{"429 1", "503 2"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 200, calls: 3, took: 3 * time.Second},
		{name: "too often", method: "DELETE", answers: []string{"429 1", "503 2", "503 4"}, config: transport.Config{MaxWait: time.Minute, Retries: 2}, status: 503, calls: 3, took: 3 * time.Second},
		{name: "too late", method: "GET", answers: []string{"429 1", "429 3"}, config: transport.Config{MaxWait: 3 * time.Second, Retries: 5}, status: 429, calls: 2, took: time.Second},
		{name: "too long a pause", method: "GET", answers: []string{"429 100"}, config: transport.Config{MaxWait: weir.Unlimited, MaxPause: time.Minute, Retries: 5}, status: 429, calls: 1},
		{name: "no time", method: "GET", answers: []string{"429 "}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 429, calls: 1},
		{name: "another status", method: "GET", answers: []string{"500 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 500, calls: 1},
		{name: "not idempotent", method: "POST", content: "body", answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 429, calls: 1},
		{name: "with a key", method: "POST", content: "body", change: func(r *http.Request) { r.Header.Set("Idempotency-Key", "1") },
			answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 200, calls: 2, took: time.Second},
		{name: "body is gone", method: "PUT", content: "body", change: func(r *http.Request) { r.GetBody = nil },
			answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 429, calls: 1},
		{name: "body fails", method: "PUT", content: "body", change: func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") } },
			answers: []string{"429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5}, status: 429, calls: 1, took: time.Second},
		{name: "nothing left", method: "GET", answers: []string{"429 1", "429 1", "429 1"}, config: transport.Config{MaxWait: time.Minute, Retries: 5, Limits: limits("2/24h")}, status: 429, calls: 2, took: 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				s.answer = func(call int, r *http.Request) (*http.Response, error) {
					if call > len(c.answers) {
						return s.response(r, 200), nil
					}
					status, after, _ := strings.Cut(c.answers[call-1], " ")
					code := map[string]int{"429": 429, "503": 503, "500": 500}[status]
					if after == "" {
						return s.response(r, code), nil
					}
					return s.response(r, code, "Retry-After", after), nil
				}
				c.config.Base = s
				rt := open(t, c.config)
				r := request(t, c.method, api, c.content)
				if c.change != nil {
					c.change(r)
				}
				start := time.Now()
				resp, err := rt.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
					t.Errorf("body = %q, %v", b, err)
				}
				resp.Body.Close()
				if took := time.Since(start); resp.StatusCode != c.status || s.seen() != c.calls || took != c.took {
					t.Errorf("%d after %d calls and %v, want %d, %d and %v", resp.StatusCode, s.seen(), took, c.status, c.calls, c.took)
				}
				if resp.Request.URL != r.URL {
					t.Errorf("the response is of %v", resp.Request.URL)
				}
				if s.open != 0 {
					t.Errorf("%d bodies are open", s.open)
				}
			})
		})
	}
}

// TestRetriedBody checks that each attempt sends the whole body.
func TestRetriedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			got = append(got, string(b))
			h := http.Header{}
			h.Set("Retry-After", "1")
			return &http.Response{StatusCode: 429, Header: h, Body: http.NoBody, Request: r}, nil
		})
		rt := open(t, transport.Config{Base: base, Retries: 2, MaxWait: weir.Unlimited})
		if _, err := do(rt, request(t, "PUT", api, "content")); err != nil || strings.Join(got, " ") != "content content content" {
			t.Errorf("sent %q, %v", got, err)
		}
	})
}

// TestRetryUnmade checks that the charge of a retry that could not be sent is returned.
func TestRetryUnmade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answer = func(_ int, r *http.Request) (*http.Response, error) {
			return s.response(r, 429, "Retry-After", "0"), nil
		}
		rt := open(t, transport.Config{Base: s, Retries: 1, Limits: limits("2/24h")})
		r := request(t, "PUT", api, "content")
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		for i := range 2 {
			if status, err := do(rt, r); status != 429 || err != nil {
				t.Errorf("request %d = %d, %v: two of two tokens are for what is sent", i, status, err)
			}
			r.Body = http.NoBody
		}
	})
}

// TestRetryEnds checks that a context that ends during the pause ends the request, and closes
// the answer.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.answer = func(_ int, r *http.Request) (*http.Response, error) {
			return s.response(r, 429, "Retry-After", "60"), nil
		}
		rt := open(t, transport.Config{Base: s, Retries: 1, MaxWait: weir.Unlimited})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := do(rt, request(t, "GET", api, "").WithContext(ctx)); !errors.Is(err, context.Canceled) || s.open != 0 {
			t.Errorf("%v, %d bodies open", err, s.open)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPoorBase checks a Base that breaks the contract of http.RoundTripper.
func TestPoorBase(t *testing.T) {
	s := &server{answer: func(int, *http.Request) (*http.Response, error) { return nil, nil }}
	rt := open(t, transport.Config{Base: s})
	if _, err := rt.RoundTrip(request(t, "GET", api, "")); err == nil || !strings.Contains(err.Error(), "Base: got neither a response nor an error") {
		t.Errorf("neither a response nor an error: %v", err)
	}
	s.answer = func(int, *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"0"}}}, nil
	}
	rt = open(t, transport.Config{Base: s, Retries: 1, MaxWait: time.Minute})
	if status, err := get(t, rt, api); status != 429 || err != nil || s.seen() != 3 {
		t.Errorf("a response without a body: %d, %v after %d requests, want 429 after 3", status, err, s.seen())
	}
}
