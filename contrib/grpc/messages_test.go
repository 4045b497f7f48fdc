package weirgrpc_test

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, text := range texts {
		ps = append(ps, netip.MustParsePrefix(text))
	}
	return ps
}

// TestMessages checks that messages of all streams share the limit, and that a unary call has
// none.
func TestMessages(t *testing.T) {
	var asked events
	c := weirgrpc.Config{Messages: set(t, policy.Config{Name: "messages", Limits: limits("5/h")}), Observe: asked.observe}
	cc := serve(t, server(t, still(t), set(t), c), echo{})
	got := 0
	for range 2 {
		cs := chat(t.Context(), t, cc)
		for range 4 {
			err := exchange(cs)
			if err == nil {
				got++
				continue
			}
			retry, quota := details(err)
			if status.Code(err) != codes.ResourceExhausted || retry.GetRetryDelay().AsDuration() != 12*time.Minute || quota.GetViolations()[0].Subject != "messages" {
				t.Errorf("message %d: %v with %v and %v", got+1, err, retry, quota)
			}
			if after := cs.Trailer().Get("retry-after"); len(after) != 1 || after[0] != "720" {
				t.Errorf("message %d: retry-after %v, want 720", got+1, after)
			}
			break
		}
		_ = cs.CloseSend()
	}
	if err := say(t.Context(), cc); err != nil {
		t.Errorf("unary call: %v", err)
	}
	if n := strings.Count(asked.String(), "/test.Echo/Chat messages admitted"); got != 5 || n != 5 {
		t.Errorf("%d messages came back, and %d were observed, want 5", got, n)
	}
}

// TestMessagesWait checks that messages that wait are not lost, and keep their order.
func TestMessagesWait(t *testing.T) {
	messages := set(t, policy.Config{Limits: limits("50/s burst 1"), OnDenied: policy.OnDenied{Wait: 10 * time.Second}})
	cc := serve(t, server(t, fakestore.Memory(t), set(t), weirgrpc.Config{Messages: messages}), echo{})
	cs := chat(t.Context(), t, cc)
	for i := range 5 {
		if err := cs.SendMsg(wrapperspb.Int64(int64(i + 1))); err != nil {
			t.Fatal(err)
		}
	}
	_ = cs.CloseSend()
	for i := range 5 {
		var out wrapperspb.Int64Value
		if err := cs.RecvMsg(&out); err != nil {
			t.Fatalf("message %d: %v", i+1, err)
		}
	}
	if err := cs.RecvMsg(new(text)); err != io.EOF {
		t.Errorf("stream ended with %v", err)
	}
}

// TestMessageDeniedForGood checks that a handler that reads on after a denial gets no more
// messages, also after the limit would admit them.
func TestMessageDeniedForGood(t *testing.T) {
	ended := make(chan error, 1)
	store, advance := fakestore.Clocked(t)
	messages := set(t, policy.Config{Limits: limits("1/h")})
	cc := serveBehind(t, echo{chat: func(s grpc.ServerStream) error {
		_, _ = s.RecvMsg(new(text)), s.RecvMsg(new(text))
		advance(2 * time.Hour)
		return s.RecvMsg(new(text))
	}}, after(server(t, store, set(t), weirgrpc.Config{Messages: messages}), ended))
	cs := chat(t.Context(), t, cc)
	for range 4 {
		_ = cs.SendMsg(wrapperspb.String("hello"))
	}
	if err := <-ended; status.Code(err) != codes.ResourceExhausted {
		t.Errorf("RecvMsg = %v, want the denial", err)
	}
}

func TestNewRefuses(t *testing.T) {
	store, none := still(t), set(t)
	named := func(c policy.Config) *policy.Set {
		c.Name, c.Limits = "odd", append(c.Limits, limits("9/s")...)
		return set(t, c)
	}
	for _, c := range []struct {
		store  weir.Store
		set    *policy.Set
		config weirgrpc.Config
		want   string
	}{
		{nil, none, weirgrpc.Config{}, "weirgrpc: rpclimit: store: invalid: got nil"},
		{store, nil, weirgrpc.Config{}, "weirgrpc: rpclimit: policies: invalid: got nil"},
		{store, none, weirgrpc.Config{Fields: httplimit.Draft03 | httplimit.Draft08}, "at most one draft"},
		{store, none, weirgrpc.Config{Client: httplimit.ClientAddress{Header: "X-Real-Ip"}}, "want X-Forwarded-For or Forwarded"},
		{store, none, weirgrpc.Config{RetryJitter: -1}, "RetryJitter: invalid: got -1ns"},
		{store, none, weirgrpc.Config{Options: enforce.Options{MaxWaiters: -1}}, "MaxWaiters: invalid: got -1"},
		{store, none, weirgrpc.Config{Options: enforce.Options{SettleTTL: 1}}, "SettleTTL: invalid: got 1ns"},
		{store, named(policy.Config{Settle: policy.Settle{JSON: "usage.total"}}), weirgrpc.Config{}, `policy odd: cost.json "usage.total"`},
		{store, none, weirgrpc.Config{Messages: named(policy.Config{Settle: policy.Settle{JSON: "usage"}})}, `messages: policy odd: cost.json "usage"`},
		{store, none, weirgrpc.Config{Messages: named(policy.Config{Settle: policy.Settle{Header: "X-Cost"}})}, `messages: policy odd: cost.header "X-Cost"`},
		{store, none, weirgrpc.Config{Messages: named(policy.Config{Count: policy.CountFailures})}, `messages: policy odd: count "failures"`},
		{store, none, weirgrpc.Config{Messages: named(policy.Config{Limits: limits("3 concurrency")})}, `messages: policy odd: limits[0] "3 concurrency`},
	} {
		_, err := weirgrpc.New(c.store, c.set, c.config)
		if !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "weirgrpc: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New = %v, want an invalid %s", err, c.want)
		}
	}
	if _, err := weirgrpc.New(store, named(policy.Config{Mode: policy.Off, Settle: policy.Settle{JSON: "usage"}}), weirgrpc.Config{}); err != nil {
		t.Errorf("New = %v, want a policy that is off to pass", err)
	}
}
