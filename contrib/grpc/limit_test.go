package weirgrpc_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
)

type userKey struct{}

// authenticate puts the metadata x-user into the context.
func authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(context.WithValue(ctx, userKey{}, strings.Join(metadata.ValueFromIncomingContext(ctx, "x-user"), "")), req)
}

// TestLimit checks a limit per signed-in user, and that calls without one share a bucket.
func TestLimit(t *testing.T) {
	l := weirgrpc.Limit(still(t), "2/h", func(ctx context.Context, method string) string {
		if method != sayMethod {
			t.Errorf("method = %q, want %q", method, sayMethod)
		}
		return ctx.Value(userKey{}).(string)
	})
	cc := serveBehind(t, echo{}, []grpc.ServerOption{grpc.ChainUnaryInterceptor(authenticate, l.Unary)})
	for i, c := range []struct {
		user string
		want codes.Code
	}{{"alice", 0}, {"alice", 0}, {"alice", codes.ResourceExhausted}, {"bob", 0}, {"", 0}, {"", 0}, {"", codes.ResourceExhausted}} {
		if err := say(metadata.AppendToOutgoingContext(t.Context(), "x-user", c.user), cc); status.Code(err) != c.want {
			t.Errorf("call %d: %v, want %v", i, err, c.want)
		}
	}
}

// TestLimitFunc checks a limit for each key from code.
func TestLimitFunc(t *testing.T) {
	l := weirgrpc.LimitFunc(still(t), func(_ context.Context, key string) (weir.Limit, error) {
		return weir.MustLimit(map[string]string{"alice": "2/h"}[key]), nil
	}, func(context.Context, string) string { return "alice" })
	cc := serve(t, l, echo{})
	for i, want := range []codes.Code{0, 0, codes.ResourceExhausted} {
		if err := say(t.Context(), cc); status.Code(err) != want {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
}

// TestLimitByIP checks the limit per peer, for unary and streaming calls.
func TestLimitByIP(t *testing.T) {
	l := weirgrpc.Limit(still(t), "2/h", weirgrpc.ByIP)
	cc := serve(t, l, echo{})
	if err := say(t.Context(), cc); err != nil {
		t.Fatal(err)
	}
	if err := ignoreEOF(exchange(chat(t.Context(), t, cc))); err != nil {
		t.Fatal(err)
	}
	if err := say(t.Context(), cc); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "policy limit") {
		t.Errorf("third call: %v, want RESOURCE_EXHAUSTED by policy limit", err)
	}
	if key := weirgrpc.ByIP(t.Context(), ""); key != "" {
		t.Errorf("ByIP without a peer = %q, want none", key)
	}
}
