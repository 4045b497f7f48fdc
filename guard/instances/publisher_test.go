package instances_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/redisstore"
)

// A site is a transport that keeps the last report.
type site struct {
	mu     sync.Mutex
	status int
	err    error
	last   instances.Process
	size   int
	token  string
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.last, s.size, s.token = instances.Process{}, len(body), r.Header.Get("Authorization")
	err = json.Unmarshal(body, &s.last)
	return &http.Response{StatusCode: s.status, Status: http.StatusText(s.status), Header: http.Header{"Location": {"/x"}}, Body: io.NopCloser(strings.NewReader("why\n"))}, err
}

func (s *site) set(status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.err = status, err
}

func (s *site) read() instances.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// TestPublisher checks what a process reports: rates over ten seconds, the policies, errors of
// reports once each, and its end.
func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := guard.NewRegistry(guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		g := r.MustGuard(guard.Resource{Name: "getId", Function: "shop.GetID", Limits: []weir.Limit{weir.MustLimit("1/2s fixed_window")}})
		s, reported := &site{status: 204}, make(chan error, 10)
		var mu sync.Mutex
		var problem error
		p := instances.Publisher{
			URL: "http://u:secret@weir.example/v1/programs", Token: "token-of-the-shop", Client: &http.Client{Transport: s}, Service: "shop", Registry: r,
			Policies: func() (int64, error) {
				mu.Lock()
				defer mu.Unlock()
				return 42, problem
			},
			OnError: func(err error) { reported <- err },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		if got := s.read(); got.ID == "" || got.Service != "shop" || got.Version != 42 || got.PID == 0 || got.Functions[0].Calls != 0 || s.token != "Bearer token-of-the-shop" {
			t.Errorf("the first report is %+v", got)
		}
		call := func() {
			if e, err := g.Enter(ctx, ""); err == nil {
				e.Exit(errors.New("failed"))
			}
		}
		for range 60 { // two calls a second: one of four passes
			call()
			<-time.After(500 * time.Millisecond)
		}
		synctest.Wait()
		f := s.read().Functions[0]
		if f.Calls < 1.8 || f.Calls > 2.2 || f.Denied < 1.3 || f.Denied > 1.7 || f.Failed < 0.4 || f.Failed > 0.6 || f.Total.Passed != 15 || f.Total.Denied != 45 || f.Total.Failed != 15 {
			t.Errorf("after two calls a second: %+v", f)
		}
		<-time.After(12 * time.Second)
		if f := s.read().Functions[0]; f.Calls != 0 || f.Denied != 0 || f.Total.Passed != 15 {
			t.Errorf("after a pause: %+v, want no calls per second", f)
		}
		mu.Lock()
		problem = errors.New("version 43: invalid")
		mu.Unlock()
		<-time.After(250 * time.Millisecond) // reported at once
		synctest.Wait()
		if got := s.read(); got.Problem != "version 43: invalid" || got.Version != 42 {
			t.Errorf("with a problem: %+v", got)
		}
		for _, c := range []struct {
			status int
			err    error
			want   string
		}{
			{503, nil, `instances: POST http://u:xxxxx@weir.example/v1/programs: got Service Unavailable, want 204: "why\n"`},
			{204, nil, ""},
			{302, nil, "instances: POST http://u:xxxxx@weir.example/v1/programs: got Found"},
			{204, errors.New("connection refused"), "instances: POST http://u:xxxxx@weir.example/v1/programs: store unavailable: connection refused"},
			{204, nil, ""},
		} {
			s.set(c.status, c.err)
			<-time.After(5 * time.Second)
			if len(reported) != 1 {
				t.Fatalf("%d %v: %d reports of an error, want one", c.status, c.err, len(reported))
			}
			if err := <-reported; c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("%d %v: OnError(%v), want %s", c.status, c.err, err, c.want)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !s.read().Left {
			t.Errorf("Run = %v, the last report is %+v, want the end of the process", err, s.read())
		}
	})
}

// TestPublisherSize checks that a report with many functions is cut, and keeps those with calls.
func TestPublisherSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := guard.NewRegistry(guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		const most = 1200
		var last *guard.Guard
		for i := range most {
			last = r.MustGuard(guard.Resource{Name: "f", Function: strings.Repeat("x", 200), Line: i + 1})
		}
		if e, err := last.Enter(t.Context(), ""); err == nil {
			e.Exit(nil)
		}
		s := &site{status: 204}
		p := instances.Publisher{URL: "http://weir.example/", Client: &http.Client{Transport: s}, Service: "shop", Registry: r}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		got := s.read()
		if n := len(got.Functions); s.size > instances.MaxSize || n < 100 || n+got.Omitted != most || got.Functions[0].Line != most {
			t.Errorf("%d bytes, %d functions, %d omitted, the first %+v; want at most %d bytes and the function with a call", s.size, n, got.Omitted, got.Functions[:1], instances.MaxSize)
		}
		cancel()
		<-done
	})
}

func TestPublisherFields(t *testing.T) {
	var conn struct{ redisstore.Conn }
	for _, p := range []instances.Publisher{
		{Service: "shop"},
		{Service: "shop", Conn: conn, URL: "http://weir.example"},
		{Service: "shop", Conn: (*struct{ redisstore.Conn })(nil)},
		{Service: "shop", URL: "weir.example"},
		{Service: "shop", URL: "http://weir.example", Token: "two words"},
		{Service: "shop", URL: "http://weir.example", Every: instances.StaleAfter},
		{URL: "http://weir.example"},
		{URL: "http://weir.example", Service: strings.Repeat("x", 65)},
	} {
		if err := p.Run(t.Context()); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Run of %+v = %v, want ErrInvalid", p, err)
		}
	}
}
