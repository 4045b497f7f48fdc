package weirconnect_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	weirconnect "github.com/floodweir/weir/contrib/connect"
)

type userKey struct{}

// authenticate puts the header X-User into the context.
func authenticate(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		return next(context.WithValue(ctx, userKey{}, r.Header().Get("X-User")), r)
	}
}

// TestLimit checks a limit per signed-in user, and that calls without one share a bucket.
func TestLimit(t *testing.T) {
	l := weirconnect.Limit(still(t), "2/h", func(ctx context.Context, procedure string) string {
		if procedure != sayProcedure {
			t.Errorf("procedure = %q, want %q", procedure, sayProcedure)
		}
		return ctx.Value(userKey{}).(string)
	})
	c := serve(t, echo{}, []connect.Interceptor{connect.UnaryInterceptorFunc(authenticate), l})
	for i, step := range []struct {
		user string
		want connect.Code
	}{{"alice", 0}, {"alice", 0}, {"alice", connect.CodeResourceExhausted}, {"bob", 0}, {"", 0}, {"", 0}, {"", connect.CodeResourceExhausted}} {
		if _, err := c.say(t.Context(), "X-User", step.user); code(err) != step.want {
			t.Errorf("call %d: %v, want %v", i, err, step.want)
		}
	}
}

// TestLimitByIP checks the limit per peer, for unary and streaming calls.
func TestLimitByIP(t *testing.T) {
	for protocol, opts := range protocols() {
		c := serve(t, echo{}, behind(weirconnect.Limit(still(t), "2/h", weirconnect.ByIP)), opts...)
		if _, err := c.say(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.one(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.say(t.Context()); code(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "policy limit") {
			t.Errorf("%s: third call: %v, want resource_exhausted by policy limit", protocol, err)
		}
	}
	if key := weirconnect.ByIP(t.Context(), ""); key != "" {
		t.Errorf("ByIP without a peer = %q, want none", key)
	}
}
