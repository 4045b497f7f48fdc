package weirconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func client(t testing.TB, c weirconnect.ClientConfig) *weirconnect.Client {
	t.Helper()
	pace, err := weirconnect.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	return pace
}

func limiter(t testing.TB, store weir.Store, limit string) *weir.Limiter {
	t.Helper()
	l, err := weir.New(store, weir.MustLimit(limit), weir.Config{Prefix: "outgoing"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// denial returns the error of a server with a RetryInfo.
func denial(code connect.Code, d time.Duration) error {
	e := connect.NewError(code, errors.New("slow down"))
	if detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)}); err == nil {
		e.AddDetail(detail)
	}
	return e
}

// answers is a server in this process that answers one after the other, and then well;
// it notes when. It is a transport, so that a bubble's clock goes on.
type answers struct {
	start time.Time
	with  []error
	at    []time.Duration
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Since(a.start))
	var end error
	if len(a.with) > 0 {
		end, a.with = a.with[0], a.with[1:]
	}
	w := httptest.NewRecorder()
	echo{say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
		if end != nil {
			return nil, end
		}
		return connect.NewResponse(r.Msg), nil
	}}.handler().ServeHTTP(w, r)
	return w.Result(), nil
}

// call asks a for a procedure, as the client of c.
func (a *answers) call(ctx context.Context, c *weirconnect.Client, procedure string) error {
	_, err := connect.NewClient[text, text](a, "http://api.example.com"+procedure, connect.WithInterceptors(c)).
		CallUnary(ctx, connect.NewRequest(wrapperspb.String("hello")))
	return err
}

// TestPace checks that calls go out as the limiter says, those of clients that share a store
// together; one that would wait for too long ends at once.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fakestore.Memory(t)
		a, b := client(t, weirconnect.ClientConfig{Limiter: limiter(t, store, "1/s")}), client(t, weirconnect.ClientConfig{Limiter: limiter(t, store, "1/s")})
		server := answers{start: time.Now()}
		for i := range 6 {
			if err := server.call(t.Context(), []*weirconnect.Client{a, b}[i%2], sayProcedure); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fmt.Sprint(server.at), "[0s 1s 2s 3s 4s 5s]"; got != want {
			t.Errorf("calls went out at %s, want %s", got, want)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, w := range []struct {
			ctx context.Context
			max time.Duration
		}{{t.Context(), 5 * time.Second}, {short, 0}, {t.Context(), -1}} {
			server := answers{start: time.Now()}
			pace := client(t, weirconnect.ClientConfig{Limiter: limiter(t, store, "2/m burst 1"), MaxWait: w.max, Key: func(context.Context, string, string) string { return fmt.Sprint(w) }})
			if err := server.call(w.ctx, pace, sayProcedure); err != nil {
				t.Error(err)
			}
			err := server.call(w.ctx, pace, sayProcedure)
			if d, ok := weirconnect.RetryAfter(err); !ok || d != 30*time.Second || len(server.at) != 1 || time.Since(server.start) != 0 {
				t.Errorf("max wait %v: %v after %v and %d calls, want a denial at once for 30s", w.max, err, time.Since(server.start), len(server.at))
			}
		}
	})
}

// TestObey checks that calls of the same kind wait until the server may be asked again.
func TestObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type user struct{}
		pace := client(t, weirconnect.ClientConfig{Key: func(ctx context.Context, _, _ string) string {
			name, _ := ctx.Value(user{}).(string)
			return name
		}})
		server := answers{start: time.Now(), with: []error{denial(connect.CodeResourceExhausted, 10*time.Second)}}
		if err := server.call(t.Context(), pace, sayProcedure); code(err) != connect.CodeResourceExhausted {
			t.Errorf("call 1 = %v, want the server's word: it is not repeated", err)
		}
		for i, ctx := range []context.Context{context.WithValue(t.Context(), user{}, "bob"), t.Context(), t.Context()} {
			if err := server.call(ctx, pace, sayProcedure); err != nil {
				t.Errorf("call %d: %v", i+2, err)
			}
		}
		if got, want := fmt.Sprint(server.at), "[0s 0s 10s 10s]"; got != want {
			t.Errorf("calls went out at %s, want %s: another key does not wait", got, want)
		}
		server.with = []error{denial(connect.CodeUnavailable, 30*time.Second)}
		_ = server.call(t.Context(), pace, sayProcedure)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := server.call(ctx, pace, sayProcedure); code(err) != connect.CodeCanceled || len(server.at) != 5 {
			t.Errorf("call = %v, want canceled while it waits", err)
		}
	})
}

// TestRetries checks that a denied call is repeated as often as asked, when the server says.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fakestore.Memory(t)
		exhausted := connect.CodeResourceExhausted
		for _, w := range []struct {
			with []error
			at   string
			code connect.Code
		}{
			{[]error{denial(exhausted, 2*time.Second), denial(exhausted, 3*time.Second)}, "[0s 2s 5s]", 0},
			{[]error{denial(exhausted, time.Second), denial(exhausted, time.Second), denial(exhausted, time.Second)}, "[0s 1s 2s]", exhausted},
			{[]error{denial(exhausted, time.Hour)}, "[0s]", exhausted},
			{[]error{connect.NewError(exhausted, errors.New("too large"))}, "[0s]", exhausted},
			{[]error{denial(connect.CodeAborted, time.Second)}, "[0s]", connect.CodeAborted},
			{[]error{denial(exhausted, -1)}, "[0s]", exhausted},
		} {
			server := answers{start: time.Now(), with: w.with}
			err := server.call(t.Context(), client(t, weirconnect.ClientConfig{Limiter: limiter(t, store, "1000/s"), Retries: 2}), sayProcedure)
			if code(err) != w.code || fmt.Sprint(server.at) != w.at {
				t.Errorf("%v at %v, want %v at %s", err, server.at, w.code, w.at)
			}
			if w.code != 0 && strings.Contains(err.Error(), "not sent") {
				t.Errorf("%v, want what the server said", err)
			}
		}
	})
}

// TestClientStoreError checks OnStoreError of a client.
func TestClientStoreError(t *testing.T) {
	broken := fakestore.Store{One: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, weir.ErrUnavailable
	}}
	for mode, want := range map[policy.FailMode]connect.Code{"": 0, policy.Open: 0, policy.Closed: connect.CodeUnavailable} {
		var server answers
		err := server.call(t.Context(), client(t, weirconnect.ClientConfig{Limiter: limiter(t, broken, "1/s"), OnStoreError: mode}), sayProcedure)
		if code(err) != want || len(server.at) == 1 != (want == 0) {
			t.Errorf("%q: %v and %d calls, want %v", mode, err, len(server.at), want)
		}
	}
}

// TestClientLongKey checks that a key that no store accepts does not avoid the limit.
func TestClientLongKey(t *testing.T) {
	var server answers
	pace := client(t, weirconnect.ClientConfig{
		Limiter: limiter(t, fakestore.Memory(t), "1/h"),
		Key:     func(context.Context, string, string) string { return strings.Repeat("k", bounds.MaxKey) },
	})
	err := server.call(t.Context(), pace, sayProcedure)
	if code(err) != connect.CodeInvalidArgument || !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "want at most 65536 bytes") || len(server.at) != 0 {
		t.Errorf("%v and %d calls, want CodeInvalidArgument and none", err, len(server.at))
	}
}

// TestClientAndServer checks a client and a server over the wire: a call or stream that a
// server denied is not sent again too early.
func TestClientAndServer(t *testing.T) {
	for protocol, opts := range protocols() {
		var asked events
		limit := server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirconnect.Config{Observe: asked.observe})
		pace := client(t, weirconnect.ClientConfig{MaxWait: time.Second})
		// The client's interceptor does nothing in a server, nor the server's in a client.
		c := serve(t, echo{}, []connect.Interceptor{pace, limit}, append(opts, connect.WithInterceptors(limit, pace))...)
		if _, err := c.say(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			_, err := c.say(t.Context())
			if d, ok := weirconnect.RetryAfter(err); !ok || d > time.Hour || d < 59*time.Minute {
				t.Errorf("%s: call %d is to be repeated after %v", protocol, i+2, d)
			}
		}
		for i := range 3 {
			s := c.chat(t.Context())
			err := exchange(s)
			if _, ok := weirconnect.RetryAfter(err); !ok || strings.Contains(err.Error(), "not sent") != (i > 0) {
				t.Errorf("%s: stream %d = %v, want only the first to be sent", protocol, i+1, err)
			}
			if err := errors.Join(s.CloseRequest(), s.CloseResponse()); i > 0 && err != nil || s.ResponseHeader() == nil || s.ResponseTrailer() == nil {
				t.Errorf("%s: stream %d closes with %v", protocol, i+1, err)
			}
		}
		if got, want := asked.String(), "[/test.Echo/Say p1 admitted /test.Echo/Say p1 denied /test.Echo/Chat p1 denied]"; got != want {
			t.Errorf("%s: the server was asked %s, want %s", protocol, got, want)
		}
	}
}

// TestClientInServer checks that a client interceptor does nothing in a handler.
func TestClientInServer(t *testing.T) {
	pace := client(t, weirconnect.ClientConfig{Limiter: limiter(t, still(t), "1/h"), MaxWait: weir.NoWait, Key: func(context.Context, string, string) string { return "all" }})
	c := serve(t, echo{}, []connect.Interceptor{pace})
	for range 2 {
		if _, err := c.say(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.one(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestSharedBudget checks that concurrent clients send exactly what the limit admits.
func TestSharedBudget(t *testing.T) {
	var got atomic.Int32
	c := serve(t, echo{say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
		got.Add(1)
		return connect.NewResponse(r.Msg), nil
	}}, nil)
	store := still(t)
	var wg sync.WaitGroup
	for range 2 {
		pace := client(t, weirconnect.ClientConfig{Limiter: limiter(t, store, "17/24h"), MaxWait: weir.NoWait})
		mine := dial(t, c.url, connect.WithInterceptors(pace))
		for range 25 {
			wg.Go(func() {
				if _, err := mine.say(t.Context()); err != nil && code(err) != connect.CodeResourceExhausted {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if got.Load() != 17 {
		t.Errorf("%d calls of 50 were sent, want 17", got.Load())
	}
}

func TestNewClientRefuses(t *testing.T) {
	for want, c := range map[string]weirconnect.ClientConfig{
		"Retries: invalid: got -1":          {Retries: -1},
		"Retries: invalid: got 11":          {Retries: 11},
		`OnStoreError: invalid: got "ajar"`: {OnStoreError: "ajar"},
		"concurrency limit 3":               {Limiter: limiter(t, still(t), "3 concurrency")},
	} {
		if _, err := weirconnect.NewClient(c); !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "weirconnect: client: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("NewClient = %v, want an invalid %s", err, want)
		}
	}
}
