package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakeprotect"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/rpclimit"
)

func protected(all ...protect.Protection) rpclimit.ProtectConfig {
	return rpclimit.ProtectConfig{Chain: protect.New(protect.Config{Protections: all})}
}

// TestProtectUnary checks the result of a call that a protection gets.
func TestProtectUnary(t *testing.T) {
	fails := func(c codes.Code) func(context.Context, *text) (*text, error) {
		return func(_ context.Context, in *text) (*text, error) { return in, status.Error(c, "text") }
	}
	for _, c := range []struct {
		name string
		say  func(context.Context, *text) (*text, error)
		want string
	}{
		{"success", fails(codes.OK), "ok"},
		{"mistake of the client", fails(codes.InvalidArgument), "ok"},
		{"not implemented", fails(codes.Unimplemented), "ok"},
		{"failure", fails(codes.Internal), "failed"},
		{"any error", func(context.Context, *text) (*text, error) { return nil, errors.New("down") }, "failed"},
		{"timeout", fails(codes.DeadlineExceeded), "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fakeprotect.New("breaker")
			cc := serve(t, server(t, still(t), set(t), weirgrpc.Config{Protect: protected(r)}), echo{say: c.say})
			_ = say(t.Context(), cc)
			r.Want(t, c.want)
		})
	}
	t.Run("client left", func(t *testing.T) {
		r := fakeprotect.New("breaker")
		begun := make(chan struct{})
		cc := serve(t, server(t, still(t), set(t), weirgrpc.Config{Protect: protected(r)}), echo{say: func(ctx context.Context, _ *text) (*text, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		_ = say(ctx, cc)
		r.Want(t, "canceled")
	})
	t.Run("panic", func(t *testing.T) {
		r := fakeprotect.New("breaker")
		limits := server(t, still(t), set(t), weirgrpc.Config{Protect: protected(r)})
		func() {
			defer func() { recover() }()
			_, _ = limits.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: sayMethod}, func(context.Context, any) (any, error) { panic("mistake") })
		}()
		r.Want(t, "failed")
	})
}

// TestProtectRejects checks the error of a rejected call, and that it costs no tokens.
func TestProtectRejects(t *testing.T) {
	r := fakeprotect.New("bulkhead")
	r.Refuse = &protect.Refused{Reason: errors.New("full"), RetryAfter: 10 * time.Second}
	store := still(t)
	cc := serve(t, server(t, store, set(t, policy.Config{Limits: limits("1/h")}), weirgrpc.Config{Protect: protected(r)}), echo{})
	calls := map[string]func(...grpc.CallOption) error{
		"unary": func(o ...grpc.CallOption) error { return say(t.Context(), cc, o...) },
		"stream": func(o ...grpc.CallOption) error {
			cs, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chatMethod, o...)
			if err != nil {
				return err
			}
			return exchange(cs)
		},
	}
	for name, call := range calls {
		var trailer metadata.MD
		err := call(grpc.Trailer(&trailer))
		retry, quota := details(err)
		var info string
		for _, d := range status.Convert(err).Details() {
			if d, ok := d.(*errdetails.ErrorInfo); ok {
				info = d.GetReason() + " " + d.GetDomain() + " " + d.GetMetadata()["protection"]
			}
		}
		if status.Code(err) != codes.Unavailable || info != "REJECTED_BY_PROTECTION weir bulkhead" || quota != nil {
			t.Errorf("%s: %v, %s, %v, want UNAVAILABLE by the bulkhead", name, err, info, quota)
		}
		if d := retry.GetRetryDelay().AsDuration(); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("%s: retry after %v, want 10s and up to a second more", name, d)
		}
		if got := trailer.Get("weir-protection"); !slices.Equal(got, []string{"bulkhead"}) || len(trailer.Get("retry-after")) != 1 || len(trailer.Get("grpc-retry-pushback-ms")) != 1 || len(trailer.Get("ratelimit")) > 0 {
			t.Errorf("%s: trailers %v", name, trailer)
		}
	}
	r.Refuse = nil
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if err := calls["unary"](); status.Code(err) != want {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	r.Want(t, "ok", "not made") // the denial of the limit is neither success nor failure
}

// TestProtectStream checks that the latency of a stream ends with the first message of the server,
// and that a bulkhead holds its slot until the stream ends.
func TestProtectStream(t *testing.T) {
	breaker, bulkhead := fakeprotect.New("breaker"), fakeprotect.New("bulkhead")
	bulkhead.Whole = true
	cc := serve(t, server(t, still(t), set(t), weirgrpc.Config{Protect: protected(breaker, bulkhead)}), echo{})
	cs := chat(t.Context(), t, cc)
	for range 2 {
		if err := exchange(cs); err != nil {
			t.Fatal(err)
		}
	}
	breaker.Want(t, "ok")
	bulkhead.None(t)
	if err := cs.CloseSend(); err != nil {
		t.Fatal(err)
	}
	bulkhead.Want(t, "ok")
}

// TestProtectStreamDenied checks that a message that a policy denies is neither success nor failure.
func TestProtectStreamDenied(t *testing.T) {
	breaker := fakeprotect.New("breaker")
	c := weirgrpc.Config{Protect: protected(breaker), Messages: set(t, policy.Config{Block: true})}
	cc := serve(t, server(t, still(t), set(t), c), echo{})
	if err := exchange(chat(t.Context(), t, cc)); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("a denied message: %v", err)
	}
	breaker.Want(t, "not made")
}

// TestProtectClasses checks priority classes and exempt calls.
func TestProtectClasses(t *testing.T) {
	r := fakeprotect.New("system")
	c := weirgrpc.Config{Protect: protected(r)}
	c.Protect.Class = enforce.Classify(set(t, policy.Config{
		Name: "critical-", Match: policy.Match{Paths: []string{"/test.Echo/*"}}, Limits: limits("1/s"),
	}))
	exempt := false
	limits := server(t, still(t), set(t), c)
	c.Protect.Exempt = func(policy.Attributes) bool { return exempt }
	other := server(t, still(t), set(t), c)
	call := func(s *weirgrpc.Server, method string) {
		t.Helper()
		if _, err := s.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	call(limits, sayMethod)
	call(limits, "/other.Service/Method")
	call(limits, "/grpc.health.v1.Health/Check")
	call(other, "/grpc.health.v1.Health/Check")
	exempt = true
	call(other, sayMethod)
	r.Want(t, "critical-ok", "ok", "ok")
}

// TestProtectShadow checks that a protection in shadow mode rejects nothing and is counted.
func TestProtectShadow(t *testing.T) {
	r := fakeprotect.New("breaker")
	r.Refuse = errors.New("open")
	var observed []string
	chain := protect.New(protect.Config{Protections: []protect.Protection{protect.Shadow(r)}, Observe: func(name string, shadow bool) {
		observed = append(observed, fmt.Sprint(name, " ", shadow))
	}})
	cc := serve(t, server(t, still(t), set(t), weirgrpc.Config{Protect: rpclimit.ProtectConfig{Chain: chain}}), echo{})
	if err := say(t.Context(), cc); err != nil || !slices.Equal(observed, []string{"breaker true"}) {
		t.Errorf("in shadow mode: %v, observed %q", err, observed)
	}
}

// A slowClient is a stream whose client sends a message after a while.
type slowClient struct {
	grpc.ServerStream
	ctx context.Context
}

func (s slowClient) Context() context.Context { return s.ctx }
func (s slowClient) SendMsg(any) error        { return nil }

func (s slowClient) RecvMsg(any) error {
	<-time.After(5 * time.Second)
	return nil
}

// A timer is a Protection that records the latency of a call.
type timer struct{ took time.Duration }

func (w *timer) Name() string  { return "adaptive" }
func (w *timer) State() string { return "" }

func (w *timer) Enter(ctx context.Context, _ string) (func(error), error) {
	start := time.Now()
	return func(error) { w.took = protect.Took(ctx, start) }, nil
}

// TestProtectStreamLatency checks that the time that a stream waits for its client, or after its
// first message, is not latency.
func TestProtectStreamLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(timer)
		limits := server(t, fakestore.Memory(t), set(t), weirgrpc.Config{Protect: protected(w)})
		err := limits.Stream(nil, slowClient{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: chatMethod}, func(_ any, s grpc.ServerStream) error {
			for range 2 {
				if err := s.RecvMsg(nil); err != nil {
					return err
				}
				<-time.After(time.Second)
				if err := s.SendMsg(nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || w.took != time.Second {
			t.Errorf("latency %v, %v, want 1s", w.took, err)
		}
	})
}
