package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func client(t testing.TB, c weirgrpc.ClientConfig) *weirgrpc.Client {
	t.Helper()
	pace, err := weirgrpc.NewClient(c)
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

// bubble is a memory store and a connection that is never used, in a bubble.
func bubble(t *testing.T) (weir.Store, *grpc.ClientConn) {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, dial(t, "passthrough:///api.example.com")
}

// denial returns the error of a server with a RetryInfo.
func denial(code codes.Code, d time.Duration) error {
	st, err := status.New(code, "slow down").WithDetails(&errdetails.QuotaFailure{}, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		return err
	}
	return st.Err()
}

// answers is a server that answers one after the other, and then well; it notes when.
type answers struct {
	start time.Time
	with  []error
	at    []time.Duration
}

func (a *answers) invoke(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	a.at = append(a.at, time.Since(a.start))
	if len(a.with) == 0 {
		return nil
	}
	err := a.with[0]
	a.with = a.with[1:]
	return err
}

// TestPace checks that calls go out as the limiter says, those of clients that share a store
// together.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, cc := bubble(t)
		a, b := client(t, weirgrpc.ClientConfig{Limiter: limiter(t, store, "1/s")}), client(t, weirgrpc.ClientConfig{Limiter: limiter(t, store, "1/s")})
		server := answers{start: time.Now()}
		for i := range 6 {
			c := a
			if i%2 == 1 {
				c = b
			}
			if err := c.Unary(t.Context(), sayMethod, nil, nil, cc, server.invoke); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fmt.Sprint(server.at), "[0s 1s 2s 3s 4s 5s]"; got != want {
			t.Errorf("calls went out at %s, want %s", got, want)
		}
	})
}

// TestPaceGivesUp checks that a call that would wait for too long ends at once, unsent.
func TestPaceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, cc := bubble(t)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, c := range []struct {
			name string
			ctx  context.Context
			max  time.Duration
		}{{"MaxWait", t.Context(), 5 * time.Second}, {"deadline", short, 0}, {"no wait", t.Context(), weir.NoWait}, {"default", t.Context(), 0}} {
			server := answers{start: time.Now()}
			limit := "2/m burst 1"
			if c.name == "default" {
				limit = "1/2m"
			}
			pace := client(t, weirgrpc.ClientConfig{Limiter: limiter(t, store, limit), MaxWait: c.max, Key: func(context.Context, string, string) string { return c.name }})
			if err := pace.Unary(c.ctx, sayMethod, nil, nil, cc, server.invoke); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			err := pace.Unary(c.ctx, sayMethod, nil, nil, cc, server.invoke)
			want := 30 * time.Second
			if c.name == "default" {
				want *= 4
			}
			if d, ok := weirgrpc.RetryAfter(err); !ok || d != want || len(server.at) != 1 || time.Since(server.start) != 0 {
				t.Errorf("%s: %v after %v and %d calls, want a denial at once for 30s", c.name, err, time.Since(server.start), len(server.at))
			}
		}
	})
}

// TestObey checks that calls of the same kind wait until the server may be asked again.
func TestObey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cc := bubble(t)
		type user struct{}
		pace := client(t, weirgrpc.ClientConfig{Key: func(ctx context.Context, _, _ string) string {
			name, _ := ctx.Value(user{}).(string)
			return name
		}})
		server := answers{start: time.Now(), with: []error{denial(codes.ResourceExhausted, 10*time.Second)}}
		call := func(ctx context.Context, method string) error {
			return pace.Unary(ctx, method, nil, nil, cc, server.invoke)
		}
		if err := call(t.Context(), sayMethod); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("call 1 = %v, want the server's word: it is not repeated", err)
		}
		for i, c := range []struct {
			ctx    context.Context
			method string
		}{{t.Context(), chatMethod}, {context.WithValue(t.Context(), user{}, "bob"), sayMethod}, {t.Context(), sayMethod}, {t.Context(), sayMethod}} {
			if err := call(c.ctx, c.method); err != nil {
				t.Errorf("call %d: %v", i+2, err)
			}
		}
		if got, want := fmt.Sprint(server.at), "[0s 0s 0s 10s 10s]"; got != want {
			t.Errorf("calls went out at %s, want %s: another method and another key do not wait", got, want)
		}

		server.with = []error{denial(codes.Unavailable, 2*time.Minute)}
		_ = call(t.Context(), sayMethod)
		before := len(server.at)
		err := call(t.Context(), sayMethod)
		if d, ok := weirgrpc.RetryAfter(err); !ok || d != 2*time.Minute || len(server.at) != before {
			t.Errorf("call = %v, want a denial at once: two minutes are above MaxWait", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute+30*time.Second, cancel)
		synctest.Wait()
		timer := time.NewTimer(time.Minute + 10*time.Second)
		<-timer.C
		if err := call(ctx, sayMethod); status.Code(err) != codes.Canceled || len(server.at) != before {
			t.Errorf("call = %v, want CANCELLED while it waits", err)
		}
	})
}

// TestRetries checks that a denied call is repeated as often as asked, when the server says.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, cc := bubble(t)
		for _, c := range []struct {
			with []error
			at   string
			code codes.Code
		}{
			{[]error{denial(codes.ResourceExhausted, 2*time.Second), denial(codes.ResourceExhausted, 3*time.Second)}, "[0s 2s 5s]", codes.OK},
			{[]error{denial(codes.ResourceExhausted, time.Second), denial(codes.ResourceExhausted, time.Second), denial(codes.ResourceExhausted, time.Second)}, "[0s 1s 2s]", codes.ResourceExhausted},
			{[]error{denial(codes.ResourceExhausted, time.Hour)}, "[0s]", codes.ResourceExhausted},
			{[]error{status.Error(codes.ResourceExhausted, "message too large")}, "[0s]", codes.ResourceExhausted},
			{[]error{denial(codes.Aborted, time.Second)}, "[0s]", codes.Aborted},
			{[]error{denial(codes.ResourceExhausted, 0), denial(codes.ResourceExhausted, -1)}, "[0s]", codes.ResourceExhausted},
		} {
			pace := client(t, weirgrpc.ClientConfig{Limiter: limiter(t, store, "1000/s"), Retries: 2})
			server := answers{start: time.Now(), with: c.with}
			err := pace.Unary(t.Context(), sayMethod, nil, nil, cc, server.invoke)
			if status.Code(err) != c.code || fmt.Sprint(server.at) != c.at {
				t.Errorf("%v at %v, want %v at %s", err, server.at, c.code, c.at)
			}
			if c.code != codes.OK && strings.Contains(err.Error(), "not sent") {
				t.Errorf("%v, want what the server said", err)
			}
		}
	})
}

// TestHoldsAreBounded checks that a server that denies every call does not fill the memory.
func TestHoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cc := bubble(t)
		pace := client(t, weirgrpc.ClientConfig{MaxWait: weir.NoWait})
		no := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			return denial(codes.ResourceExhausted, 1000*time.Hour)
		}
		sent := 0
		for range 2 {
			for i := range 5000 {
				if err := pace.Unary(t.Context(), fmt.Sprint("/", i), nil, nil, cc, no); !strings.Contains(err.Error(), "not sent") {
					sent++
				}
			}
		}
		if sent <= 5000 || sent > 10000 {
			t.Errorf("%d calls were sent, want some to be forgotten", sent)
		}
		time.Sleep(24 * time.Hour) // the fake clock's
		if err := pace.Unary(t.Context(), "/4999", nil, nil, cc, no); strings.Contains(err.Error(), "not sent") {
			t.Errorf("after a day: %v, want the server to be asked", err)
		}
	})
}

// TestClientStoreError checks OnStoreError of a client.
func TestClientStoreError(t *testing.T) {
	broken := fakestore.Store{One: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, weir.ErrUnavailable
	}}
	cc := dial(t, "passthrough:///api.example.com")
	for mode, want := range map[policy.FailMode]codes.Code{"": codes.OK, policy.Open: codes.OK, policy.Closed: codes.Unavailable} {
		var server answers
		pace := client(t, weirgrpc.ClientConfig{Limiter: limiter(t, broken, "1/s"), OnStoreError: mode})
		if err := pace.Unary(t.Context(), sayMethod, nil, nil, cc, server.invoke); status.Code(err) != want || len(server.at) == 1 != (want == codes.OK) {
			t.Errorf("%q: %v and %d calls, want %v", mode, err, len(server.at), want)
		}
	}
}

// TestClientLongKey checks that a key that no store accepts does not avoid the limit.
func TestClientLongKey(t *testing.T) {
	cc := dial(t, "passthrough:///api.example.com")
	var server answers
	pace := client(t, weirgrpc.ClientConfig{
		Limiter: limiter(t, fakestore.Memory(t), "1/h"),
		Key:     func(context.Context, string, string) string { return strings.Repeat("k", bounds.MaxKey) },
	})
	err := pace.Unary(t.Context(), sayMethod, nil, nil, cc, server.invoke)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "call not sent: invalid limit request: weir: key: invalid: want at most 65536 bytes") || len(server.at) != 0 {
		t.Errorf("%v and %d calls, want INVALID_ARGUMENT and none", err, len(server.at))
	}
}

// TestClientAndServer checks a client and a server over the wire: a call or stream that a
// server denied is not sent again too early.
func TestClientAndServer(t *testing.T) {
	var asked events
	limit := server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirgrpc.Config{Observe: asked.observe})
	pace := client(t, weirgrpc.ClientConfig{MaxWait: time.Second})
	cc := serve(t, limit, echo{}, grpc.WithChainUnaryInterceptor(pace.Unary), grpc.WithChainStreamInterceptor(pace.Stream))
	if err := say(t.Context(), cc); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if d, ok := weirgrpc.RetryAfter(say(t.Context(), cc)); !ok || d > time.Hour || d < 59*time.Minute {
			t.Errorf("call %d is to be repeated after %v", i+2, d)
		}
	}
	if _, ok := weirgrpc.RetryAfter(exchange(chat(t.Context(), t, cc))); !ok {
		t.Error("a stream was not denied")
	}
	for range 2 {
		_, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chatMethod)
		if d, ok := weirgrpc.RetryAfter(err); !ok || d > time.Hour || !strings.Contains(err.Error(), "not sent") {
			t.Errorf("stream = %v, want it not to be sent", err)
		}
	}
	if got, want := asked.String(), "[/test.Echo/Say p1 admitted /test.Echo/Say p1 denied /test.Echo/Chat p1 denied]"; got != want {
		t.Errorf("the server was asked %s, want %s", got, want)
	}
}

// TestSharedBudget checks that concurrent clients send exactly what the limit admits.
func TestSharedBudget(t *testing.T) {
	var got atomic.Int32
	cc := serveBehind(t, echo{say: func(_ context.Context, in *text) (*text, error) {
		got.Add(1)
		return in, nil
	}}, nil)
	store := still(t)
	var wg sync.WaitGroup
	for range 2 {
		pace := client(t, weirgrpc.ClientConfig{Limiter: limiter(t, store, "17/24h"), MaxWait: weir.NoWait})
		mine := dial(t, cc.Target(), grpc.WithChainUnaryInterceptor(pace.Unary))
		for range 25 {
			wg.Go(func() {
				if err := say(t.Context(), mine); err != nil && status.Code(err) != codes.ResourceExhausted {
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
	for want, c := range map[string]weirgrpc.ClientConfig{
		"Retries: invalid: got -1":          {Retries: -1},
		"Retries: invalid: got 11":          {Retries: 11},
		`OnStoreError: invalid: got "ajar"`: {OnStoreError: "ajar"},
		"concurrency limit 3":               {Limiter: limiter(t, still(t), "3 concurrency")},
	} {
		if _, err := weirgrpc.NewClient(c); !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "weirgrpc: client: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("NewClient = %v, want an invalid %s", err, want)
		}
	}
	if _, ok := weirgrpc.RetryAfter(errors.New("x")); ok {
		t.Error("an error of another kind says when to retry")
	}
}
