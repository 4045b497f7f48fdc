package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// wantDenied checks the error of a denial that lasts for half an hour.
func wantDenied(t *testing.T, err error, trailer metadata.MD, by string) {
	t.Helper()
	retry, quota := details(err)
	if status.Code(err) != codes.ResourceExhausted || retry.GetRetryDelay().AsDuration() != 30*time.Minute {
		t.Errorf("got %v with %v, want RESOURCE_EXHAUSTED for 30m", err, retry)
	}
	if vs := quota.GetViolations(); len(vs) != 1 || vs[0].Subject != by || !strings.Contains(vs[0].Description, by) {
		t.Errorf("violations = %v, want one of %s", vs, by)
	}
	if text := status.Convert(err).Message(); text != "rate limited by policy calls: retry after 30m0s" {
		t.Errorf("message = %q", text)
	}
	want := metadata.MD{
		"retry-after": {"1800"}, "grpc-retry-pushback-ms": {"-1"},
		"ratelimit": {`"` + by + `";r=0;t=1800`}, "ratelimit-policy": {`"calls/1";q=9;w=1, "calls/2";q=2;w=3600`},
		"x-ratelimit-limit": {"2"}, "x-ratelimit-remaining": {"0"}, "x-ratelimit-reset": {"1800"},
	}
	delete(trailer, "content-type")
	delete(trailer, "grpc-status-details-bin")
	if !maps.EqualFunc(trailer, want, slices.Equal) {
		t.Errorf("trailers = %q, want %q", map[string][]string(trailer), map[string][]string(want))
	}
}

func calls() policy.Config {
	return policy.Config{Name: "calls", Match: policy.Match{Paths: []string{"/test.Echo/*"}, Methods: []string{"POST"}}, Limits: limits("9/s", "2/h")}
}

func TestUnary(t *testing.T) {
	var ran atomic.Int32
	cc := serve(t, server(t, still(t), set(t, calls()), weirgrpc.Config{}), echo{say: func(_ context.Context, in *text) (*text, error) {
		ran.Add(1)
		return in, nil
	}})
	for i, left := range []string{"1", "0"} {
		var header, trailer metadata.MD
		if err := say(t.Context(), cc, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		if got := header.Get("x-ratelimit-remaining"); !slices.Equal(got, []string{left}) || len(trailer) != 0 {
			t.Errorf("call %d: headers %v and trailers %v, want %s left", i+1, header, trailer, left)
		}
	}
	var header, trailer metadata.MD
	err := say(t.Context(), cc, grpc.Header(&header), grpc.Trailer(&trailer))
	wantDenied(t, err, trailer, "calls/2")
	if ran.Load() != 2 {
		t.Errorf("the handler ran %d times, want 2", ran.Load())
	}
}

func TestStream(t *testing.T) {
	cc := serve(t, server(t, still(t), set(t, calls()), weirgrpc.Config{}), echo{})
	for i := range 2 {
		cs := chat(t.Context(), t, cc)
		for range 20 {
			if err := exchange(cs); err != nil {
				t.Fatalf("stream %d: %v, want its messages to be free", i+1, err)
			}
		}
		if header, err := cs.Header(); err != nil || len(header.Get("ratelimit")) != 1 {
			t.Errorf("headers = %v %v, want what is left", header, err)
		}
		_ = cs.CloseSend()
		if err := cs.RecvMsg(new(text)); err != io.EOF {
			t.Errorf("stream %d ended with %v", i+1, err)
		}
	}
	cs := chat(t.Context(), t, cc)
	err := exchange(cs)
	wantDenied(t, err, cs.Trailer(), "calls/2")
}

// TestRetryPolicy checks that gRPC clients with a retry policy obey the pushback.
func TestRetryPolicy(t *testing.T) {
	var asked events
	const again = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`
	s := set(t, policy.Config{Name: "calls", Limits: limits("10/s burst 1")}, policy.Config{Name: "day", Limits: limits("2/24h")})
	cc := serve(t, server(t, fakestore.Memory(t), s, weirgrpc.Config{Observe: asked.observe}), echo{}, grpc.WithDefaultServiceConfig(again))
	for i := range 2 {
		if err := say(t.Context(), cc); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	if err := say(t.Context(), cc); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("call 3: %v", err)
	}
	say := "/test.Echo/Say"
	want := fmt.Sprint([]string{
		say + " calls admitted", say + " day admitted",
		say + " calls denied", say + " day held",
		say + " calls admitted", say + " day admitted",
	})
	if got := asked.String(); !strings.HasPrefix(got, strings.TrimSuffix(want, "]")) || strings.Count(got, "day denied") != 1 {
		t.Errorf("asked %s, want %s and one more", got, want)
	}
}

func TestWait(t *testing.T) {
	p := policy.Config{Limits: limits("20/s burst 1"), OnDenied: policy.OnDenied{Wait: 10 * time.Second}}
	cc := serve(t, server(t, fakestore.Memory(t), set(t, p), weirgrpc.Config{}), echo{})
	for i := range 3 {
		if err := say(t.Context(), cc); err != nil {
			t.Errorf("call %d: %v", i+1, err)
		}
		if err := exchange(chat(t.Context(), t, cc)); err != nil {
			t.Errorf("stream %d: %v", i+1, err)
		}
	}
}

// TestGone checks the code of a call whose context ends while it waits.
func TestGone(t *testing.T) {
	store := fakestore.Memory(t)
	p := policy.Config{Name: "slow", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: limits("2/m burst 1"), OnDenied: policy.OnDenied{Wait: time.Minute}}
	arrived, handled := make(chan struct{}, 2), make(chan error, 2)
	limit := server(t, store, set(t, p), weirgrpc.Config{})
	cc := serveBehind(t, echo{}, []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			arrived <- struct{}{}
			resp, err := limit.Unary(ctx, req, info, next)
			handled <- err
			return resp, err
		})})
	if err := say(t.Context(), cc); err != nil {
		t.Fatal(err)
	}
	if err := <-handled; err != nil {
		t.Fatal(err)
	}
	<-arrived // the first
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if err := say(ctx, cc); status.Code(err) != codes.Canceled {
		t.Errorf("call = %v, want CANCELED", err)
	}
	if c := status.Code(<-handled); c != codes.DeadlineExceeded && c != codes.Canceled {
		t.Errorf("the interceptor returned %v, want that of the context", c)
	}
}

func TestShadow(t *testing.T) {
	var asked events
	p := policy.Config{Name: "trial", Limits: limits("1/h"), Mode: policy.Shadow}
	cc := serve(t, server(t, still(t), set(t, p), weirgrpc.Config{Observe: asked.observe}), echo{})
	for range 2 {
		var header metadata.MD
		if err := say(t.Context(), cc, grpc.Header(&header)); err != nil || len(header.Get("ratelimit")) != 0 {
			t.Errorf("call: %v with %v, want nothing said", err, header)
		}
	}
	if want := "[/test.Echo/Say trial admitted shadow /test.Echo/Say trial denied shadow]"; asked.String() != want {
		t.Errorf("observed %s, want %s", &asked, want)
	}
}

// TestOverload checks that a call that this process is too busy to decide is refused in every
// mode, with the RetryAfter of the error.
func TestOverload(t *testing.T) {
	busy := fakestore.Failing(fmt.Errorf("secret address: %w", &weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond}))
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		cc := serve(t, server(t, busy, set(t, policy.Config{Limits: limits("1/h"), OnStoreError: mode}), weirgrpc.Config{}), echo{})
		var trailer metadata.MD
		err := say(t.Context(), cc, grpc.Trailer(&trailer))
		retry, _ := details(err)
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") || retry.GetRetryDelay().AsDuration() != 2500*time.Millisecond || !slices.Equal(trailer.Get("retry-after"), []string{"3"}) {
			t.Errorf("%s: %v, %v, %v, want UNAVAILABLE and 2.5 s", mode, err, retry, trailer)
		}
		if mode := trailer.Get("weir-degraded"); mode != nil {
			t.Errorf("weir-degraded %q, want none: no mode decided", mode)
		}
	}
}

// TestStoreError checks OnStoreError of policies, for unary and streaming calls.
func TestStoreError(t *testing.T) {
	broken := fakestore.Store{One: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("secret address: %w", weir.ErrUnavailable)
	}}
	for _, c := range []struct {
		mode     policy.FailMode
		codes    []codes.Code
		degraded string
	}{
		{policy.Open, []codes.Code{codes.OK, codes.OK}, "open"},
		{policy.Closed, []codes.Code{codes.Unavailable, codes.Unavailable}, "closed"},
		{policy.Local, []codes.Code{codes.OK, codes.ResourceExhausted}, "local"},
	} {
		limit := server(t, broken, set(t, policy.Config{Limits: limits("1/h"), OnStoreError: c.mode}), weirgrpc.Config{Options: enforce.Options{Local: still(t)}})
		cc := serve(t, limit, echo{})
		for i, want := range c.codes {
			var header, trailer metadata.MD
			err := say(t.Context(), cc, grpc.Header(&header), grpc.Trailer(&trailer))
			if status.Code(err) != want || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: call %d = %v, want %v", c.mode, i+1, err, want)
			}
			if got := metadata.Join(header, trailer).Get("weir-degraded"); !slices.Equal(got, []string{c.degraded}) {
				t.Errorf("%s: call %d says it was degraded %v", c.mode, i+1, got)
			}
			if retry, _ := details(err); want == codes.Unavailable && (retry.GetRetryDelay().AsDuration() != time.Second || trailer.Get("retry-after")[0] != "1") {
				t.Errorf("%s: call %d has retry %v and trailers %v, want a second", c.mode, i+1, retry, trailer)
			}
		}
		if err := exchange(chat(t.Context(), t, cc)); status.Code(err) != c.codes[1] {
			t.Errorf("%s: stream = %v, want %v", c.mode, err, c.codes[1])
		}
	}
}

// TestClientAddress checks that only a trusted proxy can set the client address.
func TestClientAddress(t *testing.T) {
	for _, c := range []struct {
		name    string
		client  httplimit.ClientAddress
		headers []string
		want    codes.Code
	}{
		{"untrusted", httplimit.ClientAddress{}, []string{"x-forwarded-for", "x-forwarded-for"}, codes.ResourceExhausted},
		{"trusted", httplimit.ClientAddress{Trusted: prefixes("127.0.0.0/8")}, []string{"x-forwarded-for", "x-forwarded-for"}, codes.OK},
		{"other header", httplimit.ClientAddress{Trusted: prefixes("127.0.0.0/8"), Header: "Forwarded"}, []string{"x-forwarded-for", "x-forwarded-for"}, codes.ResourceExhausted},
	} {
		limit := server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirgrpc.Config{Client: c.client})
		cc := serve(t, limit, echo{})
		var err error
		for i, h := range c.headers {
			err = say(metadata.AppendToOutgoingContext(t.Context(), h, fmt.Sprint("203.0.113.", i)), cc)
		}
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestKeys checks which parts of a call name a bucket.
func TestKeys(t *testing.T) {
	store := still(t)
	s := set(t, policy.Config{Name: "k", Limits: limits("100/h"), Match: policy.Match{Paths: []string{"/test.Echo/{method}"}, Hosts: []string{"api.example.com"}}, Key: []policy.KeyPart{
		{Source: policy.Host}, {Source: policy.Method}, {Source: policy.Path}, {Source: policy.Header, Name: "X-Api-Key"}, {Source: policy.Header, Name: "X-Raw-Bin"},
		{Source: policy.Claim, Name: "sub"}, {Source: policy.Query, Name: "q"}, {Source: policy.Cookie, Name: "c"},
	}})
	cc := serve(t, server(t, store, s, weirgrpc.Config{}), echo{}, grpc.WithAuthority("api.example.com:443"))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "alice", "x-raw-bin", "\x00\x01",
		"authorization", "Bearer e30.eyJzdWIiOiJib2IifQ.x", "cookie", "c=1") // {"sub":"bob"}
	if err := say(ctx, cc); err != nil {
		t.Fatal(err)
	}
	if key := "k|15:api.example.com|4:POST|19:/test.Echo/{method}|5:alice|-|3:bob|-|-"; left(t, store, key, "100/h") != 99 {
		t.Errorf("nothing was taken of %s", key)
	}
}

// TestExactly checks that a hundred concurrent calls get exactly the limit.
func TestExactly(t *testing.T) {
	limit := server(t, still(t), set(t, policy.Config{Limits: limits("37/h")}), weirgrpc.Config{})
	cc := serve(t, limit, echo{})
	var admitted, denied atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			call := func() error { return say(t.Context(), cc) }
			if i%2 == 0 {
				call = func() error { return exchange(chat(t.Context(), t, cc)) }
			}
			switch err := call(); status.Code(err) {
			case codes.OK:
				admitted.Add(1)
			case codes.ResourceExhausted:
				denied.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 37 || denied.Load() != 63 {
		t.Errorf("%d admitted and %d denied, want 37 and 63", admitted.Load(), denied.Load())
	}
}

type measure int64

func (m measure) Eval(policy.Attributes) (int64, error) { return int64(m), nil }
func (m measure) String() string                        { return "measure" }

// TestNever checks that a denial that waiting does not end has no RetryInfo, and stops
// retries.
func TestNever(t *testing.T) {
	limit := server(t, still(t), set(t, policy.Config{Limits: limits("5/s"), CostOf: measure(6)}), weirgrpc.Config{Fields: httplimit.NoFields, RetryJitter: time.Second})
	cc := serve(t, limit, echo{})
	var trailer metadata.MD
	err := say(t.Context(), cc, grpc.Trailer(&trailer))
	retry, quota := details(err)
	if status.Code(err) != codes.ResourceExhausted || retry != nil || len(quota.GetViolations()) != 1 {
		t.Errorf("%v with %v and %v, want a denial without RetryInfo", err, retry, quota)
	}
	delete(trailer, "content-type")
	delete(trailer, "grpc-status-details-bin")
	if want := (metadata.MD{"grpc-retry-pushback-ms": {"-1"}}); !maps.EqualFunc(trailer, want, slices.Equal) {
		t.Errorf("trailers = %q, want %q", map[string][]string(trailer), map[string][]string(want))
	}
}

// TestRetryJitter checks that jitter only lengthens the retry delay.
func TestRetryJitter(t *testing.T) {
	limit := server(t, still(t), set(t, policy.Config{Limits: limits("1/h"), Cost: 1}), weirgrpc.Config{RetryJitter: time.Minute})
	cc := serve(t, limit, echo{})
	_ = say(t.Context(), cc)
	for range 20 {
		retry, _ := details(say(t.Context(), cc))
		if d := retry.GetRetryDelay().AsDuration(); d < time.Hour || d > time.Hour+time.Minute {
			t.Fatalf("retry in %v, want an hour and up to a minute more", d)
		}
	}
}

// TestBeforeInterceptors checks the calls that gRPC answers before any interceptor.
func TestBeforeInterceptors(t *testing.T) {
	var seen events
	cc := serve(t, server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirgrpc.Config{Observe: seen.observe}), echo{})
	for method, want := range map[string]codes.Code{sayMethod: codes.Internal, "/test.Echo/None": codes.Unimplemented} {
		broken := grpc.ForceCodecV2(garbage{})
		if err := cc.Invoke(t.Context(), method, new(text), new(text), broken); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
	if got := seen.String(); got != "[]" {
		t.Errorf("observed %s, want nothing", got)
	}
}

// garbage is a codec whose messages are no protocol buffers.
type garbage struct{}

func (garbage) Name() string { return "proto" }

func (garbage) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer("\xff\xff\xff")}, nil
}

func (garbage) Unmarshal(mem.BufferSlice, any) error { return nil }
