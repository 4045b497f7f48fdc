package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func TestHTTPStatus(t *testing.T) {
	// As in google/rpc/code.proto.
	want := map[codes.Code]int{
		codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
		codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
		codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
		codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401, 99: 500,
	}
	for c, status := range want {
		if got := weirgrpc.HTTPStatus(c); got != status {
			t.Errorf("HTTPStatus(%v) = %d, want %d", c, got, status)
		}
	}
}

const everybody = "p1|3:all"

func all() []policy.KeyPart { return []policy.KeyPart{{Source: policy.Constant, Name: "all"}} }

// TestCount checks that only outcomes that count are charged, for unary and streaming calls.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		count  policy.Count
		failed [][2]int
		end    error
		cost   int64
	}{
		{policy.CountFailures, nil, nil, 0},
		{policy.CountFailures, nil, status.Error(codes.InvalidArgument, "no"), 1},
		{policy.CountFailures, nil, fmt.Errorf("wrapped: %w", status.Error(codes.NotFound, "no")), 1},
		{policy.CountFailures, nil, errors.New("plain"), 1},
		{policy.CountFailures, [][2]int{{401, 403}}, status.Error(codes.Unauthenticated, "no"), 1},
		{policy.CountFailures, [][2]int{{401, 403}}, status.Error(codes.NotFound, "no"), 0},
		{policy.CountFailures, [][2]int{{504, 504}}, context.DeadlineExceeded, 1},
		{policy.CountSuccesses, nil, nil, 1},
		{policy.CountSuccesses, nil, status.Error(codes.Internal, "no"), 0},
		{policy.CountAdmitted, nil, status.Error(codes.Internal, "no"), 1},
	} {
		for _, kind := range []string{"unary", "stream"} {
			store := still(t)
			ended := make(chan error, 1)
			limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Count: c.count, Failures: c.failed}), weirgrpc.Config{})
			cc := serveBehind(t, echo{
				say:  func(context.Context, *text) (*text, error) { return new(text), c.end },
				chat: func(grpc.ServerStream) error { return c.end },
			}, after(limit, ended))
			if kind == "unary" {
				_ = say(t.Context(), cc)
			} else {
				_ = exchange(chat(t.Context(), t, cc))
			}
			<-ended
			if got := 100 - left(t, store, everybody, "100/h"); got != c.cost {
				t.Errorf("%s that counts %s %v ended with %v and cost %d, want %d", kind, c.count, c.failed, c.end, got, c.cost)
			}
		}
	}
}

// after is a server whose limits have settled a call when something comes from ended.
func after(limit *weirgrpc.Server, ended chan<- error) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
			defer recovered(&err, ended)
			return limit.Unary(ctx, req, info, next)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer recovered(&err, ended)
			return limit.Stream(srv, ss, info, next)
		}),
	}
}

func recovered(err *error, ended chan<- error) {
	if r := recover(); r != nil {
		*err = status.Errorf(codes.Internal, "panic: %v", r)
	}
	ended <- *err
}

// TestPanic checks that a panic is a failure, and that nothing stays reserved.
func TestPanic(t *testing.T) {
	store := still(t)
	ended := make(chan error, 1)
	s := set(t,
		policy.Config{Key: all(), Limits: limits("100/h"), Count: policy.CountFailures},
		policy.Config{Name: "slots", Key: all(), Limits: limits("1 concurrency")},
	)
	cc := serveBehind(t, echo{
		say:  func(context.Context, *text) (*text, error) { panic("unary") },
		chat: func(grpc.ServerStream) error { panic("stream") },
	}, after(server(t, store, s, weirgrpc.Config{}), ended))
	for i := range 4 {
		call := func() error { return say(t.Context(), cc) }
		if i%2 == 1 {
			call = func() error { return exchange(chat(t.Context(), t, cc)) }
		}
		err := call()
		<-ended
		if status.Code(err) != codes.Internal {
			t.Errorf("call %d = %v, want the panic: a slot is free", i+1, err)
		}
	}
	if got := 100 - left(t, store, everybody, "100/h"); got != 4 {
		t.Errorf("%d failures, want 4", got)
	}
}

// TestSlot checks that a stream holds its slot until its handler returns, also if the client
// disconnects.
func TestSlot(t *testing.T) {
	ended := make(chan error, 1)
	limit := server(t, fakestore.Memory(t), set(t, policy.Config{Key: all(), Limits: limits("1 concurrency")}), weirgrpc.Config{})
	cc := serveBehind(t, echo{}, after(limit, ended))
	other := dial(t, cc.Target())
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cs := chat(ctx, t, cc)
		if err := exchange(cs); err != nil {
			t.Fatalf("stream %d: %v", i+1, err)
		}
		if err := exchange(chat(t.Context(), t, other)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second stream beside stream %d: %v, want a denial", i+1, err)
		}
		<-ended
		if err := say(t.Context(), other); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a call beside stream %d: %v, want a denial", i+1, err)
		}
		<-ended
		switch i {
		case 0: // it ends
			_ = cs.CloseSend()
			if err := cs.RecvMsg(new(text)); err != io.EOF {
				t.Error(err)
			}
		case 1: // it is cancelled
			cancel()
		case 2: // its connection breaks
			_ = cc.Close()
		}
		<-ended
		if err := say(t.Context(), other); err != nil {
			t.Errorf("after stream %d: %v, want a free slot", i+1, err)
		}
		<-ended
		cancel()
	}
}

// TestCost checks the cost in a trailer, a header or the metadata of an error.
func TestCost(t *testing.T) {
	md := func(v ...string) metadata.MD { return metadata.MD{"x-cost": v} }
	for _, c := range []struct {
		name string
		set  func(header, send, trailer func(metadata.MD) error)
		cost int64
	}{
		{"none", func(_, _, _ func(metadata.MD) error) {}, 3},
		{"header", func(h, _, _ func(metadata.MD) error) { _ = h(md("7")) }, 7},
		{"sent", func(_, s, _ func(metadata.MD) error) { _ = s(md("8")) }, 8},
		{"trailer", func(_, _, tr func(metadata.MD) error) { _ = tr(md("9")) }, 9},
		{"both", func(h, _, tr func(metadata.MD) error) { _ = tr(md(" 9 ")); _ = h(md("7")) }, 9},
		{"last", func(_, _, tr func(metadata.MD) error) { _ = tr(md("1", "2")); _ = tr(md("4")) }, 4},
		{"nothing", func(_, _, tr func(metadata.MD) error) { _ = tr(md("0")) }, 0},
		{"no number", func(_, _, tr func(metadata.MD) error) { _ = tr(md("many")) }, 3},
		{"negative", func(_, _, tr func(metadata.MD) error) { _ = tr(md("-1")) }, 3},
		{"too large", func(_, _, tr func(metadata.MD) error) { _ = tr(md("99999999999999999999")) }, 3},
		{"another", func(_, _, tr func(metadata.MD) error) { _ = tr(metadata.MD{"x-price": {"5"}}) }, 3},
	} {
		inContext := func(ctx context.Context) {
			c.set(func(m metadata.MD) error { return grpc.SetHeader(ctx, m) }, func(m metadata.MD) error { return grpc.SendHeader(ctx, m) },
				func(m metadata.MD) error { return grpc.SetTrailer(ctx, m) })
		}
		handlers := map[string]echo{
			"unary":             {say: func(ctx context.Context, in *text) (*text, error) { inContext(ctx); return in, nil }},
			"stream":            {chat: func(s grpc.ServerStream) error { c.set(s.SetHeader, s.SendHeader, trailerOf(s)); return nil }},
			"stream by context": {chat: func(s grpc.ServerStream) error { inContext(s.Context()); return nil }},
		}
		for kind, e := range handlers {
			store := still(t)
			ended := make(chan error, 1)
			limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Cost: 3, Settle: policy.Settle{Header: "X-Cost"}}), weirgrpc.Config{})
			cc := serveBehind(t, e, after(limit, ended))
			if kind == "unary" {
				_ = say(t.Context(), cc)
			} else {
				_ = exchange(chat(t.Context(), t, cc))
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := 100 - left(t, store, everybody, "100/h"); got != c.cost {
				t.Errorf("%s, %s: cost %d, want %d", c.name, kind, got, c.cost)
			}
		}
	}
}

func trailerOf(s grpc.ServerStream) func(metadata.MD) error {
	return func(md metadata.MD) error {
		s.SetTrailer(md)
		return nil
	}
}

// TestClientGone checks that a client that disconnects is charged.
func TestClientGone(t *testing.T) {
	store := still(t)
	ended := make(chan error, 1)
	running := make(chan struct{})
	limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Count: policy.CountFailures}), weirgrpc.Config{})
	cc := serveBehind(t, echo{say: func(ctx context.Context, in *text) (*text, error) {
		close(running)
		<-ctx.Done()
		return in, nil
	}}, after(limit, ended))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-running
		cancel()
	}()
	if err := say(ctx, cc); status.Code(err) != codes.Canceled {
		t.Errorf("call = %v, want CANCELLED", err)
	}
	<-ended
	if got := 100 - left(t, store, everybody, "100/h"); got != 1 {
		t.Errorf("cost %d, want 1", got)
	}
}

// TestSetPolicies checks that a running server decides by new policies, also if they read a cost
// and those before did not, and that invalid policies change nothing.
func TestSetPolicies(t *testing.T) {
	store := still(t)
	ended := make(chan error, 1)
	s := server(t, store, new(policy.Set), weirgrpc.Config{})
	cc := serveBehind(t, echo{say: func(ctx context.Context, in *text) (*text, error) {
		return in, grpc.SetTrailer(ctx, metadata.Pairs("X-Cost", "7"))
	}}, after(s, ended))
	call := func() error {
		err := say(t.Context(), cc)
		<-ended
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPolicies(set(t, policy.Config{Key: all(), Limits: limits("10/h"), Cost: 3, Settle: policy.Settle{Header: "X-Cost"}})); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []*policy.Set{nil, set(t, policy.Config{Key: all(), Limits: limits("10/h"), Settle: policy.Settle{JSON: "usage"}})} {
		if err := s.SetPolicies(bad); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("SetPolicies = %v, want ErrInvalid", err)
		}
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	if got := 10 - left(t, store, everybody, "10/h"); got != 7 {
		t.Errorf("cost %d, want the 7 of the trailer", got)
	}
	if err := s.SetPolicies(set(t, policy.Config{Key: all(), Limits: limits("8/h")})); err != nil {
		t.Fatal(err)
	}
	if first, second := call(), call(); first != nil || status.Code(second) != codes.ResourceExhausted {
		t.Errorf("after 7 of 8: %v and %v, want one more", first, second)
	}
}
