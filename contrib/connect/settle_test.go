package weirconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/floodweir/weir"
	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func TestHTTPStatus(t *testing.T) {
	// As in google/rpc/code.proto.
	want := map[connect.Code]int{
		0: 200, connect.CodeCanceled: 499, connect.CodeUnknown: 500, connect.CodeInvalidArgument: 400, connect.CodeDeadlineExceeded: 504,
		connect.CodeNotFound: 404, connect.CodeAlreadyExists: 409, connect.CodePermissionDenied: 403, connect.CodeResourceExhausted: 429,
		connect.CodeFailedPrecondition: 400, connect.CodeAborted: 409, connect.CodeOutOfRange: 400, connect.CodeUnimplemented: 501,
		connect.CodeInternal: 500, connect.CodeUnavailable: 503, connect.CodeDataLoss: 500, connect.CodeUnauthenticated: 401, 99: 500,
	}
	for c, status := range want {
		if got := weirconnect.HTTPStatus(c); got != status {
			t.Errorf("HTTPStatus(%v) = %d, want %d", c, got, status)
		}
	}
}

// after reports that the limits behind it have settled a call, and makes an error of a
// panic.
type after chan error

func (a after) end(err *error) {
	if r := recover(); r != nil {
		*err = connect.NewError(connect.CodeInternal, fmt.Errorf("panic: %v", r))
	}
	a <- *err
}

func (a after) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (_ connect.AnyResponse, err error) {
		defer a.end(&err)
		return next(ctx, r)
	}
}

func (a after) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) (err error) {
		defer a.end(&err)
		return next(ctx, c)
	}
}

func (a after) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// TestCount checks that only outcomes that count are charged, for unary and streaming calls.
func TestCount(t *testing.T) {
	for _, w := range []struct {
		count  policy.Count
		failed [][2]int
		end    error
		cost   int64
	}{
		{policy.CountFailures, nil, nil, 0},
		{policy.CountFailures, nil, connect.NewError(connect.CodeInvalidArgument, nil), 1},
		{policy.CountFailures, [][2]int{{404, 404}}, fmt.Errorf("wrapped: %w", connect.NewError(connect.CodeNotFound, nil)), 1},
		{policy.CountFailures, nil, errors.New("plain"), 1},
		{policy.CountFailures, [][2]int{{401, 403}}, connect.NewError(connect.CodeNotFound, nil), 0},
		{policy.CountFailures, [][2]int{{504, 504}}, context.DeadlineExceeded, 1},
		{policy.CountFailures, [][2]int{{499, 499}}, context.Canceled, 1},
		{policy.CountSuccesses, nil, nil, 1},
		{policy.CountSuccesses, nil, connect.NewError(connect.CodeInternal, nil), 0},
	} {
		for _, kind := range []string{"unary", "stream"} {
			store, ended := still(t), make(after, 1)
			limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Count: w.count, Failures: w.failed}), weirconnect.Config{})
			c := serve(t, echo{
				say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
					if w.end != nil {
						return nil, w.end
					}
					return connect.NewResponse(r.Msg), nil
				},
				chat: func(context.Context, *stream) error { return w.end },
			}, []connect.Interceptor{ended, limit})
			if kind == "unary" {
				_, _ = c.say(t.Context())
			} else {
				_ = c.one(t.Context())
			}
			<-ended
			if got := 100 - left(t, store, everybody, "100/h"); got != w.cost {
				t.Errorf("%s that counts %s %v ended with %v and cost %d, want %d", kind, w.count, w.failed, w.end, got, w.cost)
			}
		}
	}
}

// TestPanic checks that a panic is a failure, and that nothing stays reserved.
func TestPanic(t *testing.T) {
	store, ended := still(t), make(after, 1)
	s := set(t,
		policy.Config{Key: all(), Limits: limits("100/h"), Count: policy.CountFailures},
		policy.Config{Name: "slots", Key: all(), Limits: limits("1 concurrency")},
	)
	c := serve(t, echo{
		say:  func(context.Context, *connect.Request[text]) (*response, error) { panic("unary") },
		chat: func(context.Context, *stream) error { panic("stream") },
	}, []connect.Interceptor{ended, server(t, store, s, weirconnect.Config{})})
	for i := range 4 {
		var err error
		if i%2 == 0 {
			_, err = c.say(t.Context())
		} else {
			err = c.one(t.Context())
		}
		<-ended
		if code(err) != connect.CodeInternal {
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
	for protocol, opts := range protocols() {
		ended := make(after, 1)
		limit := server(t, fakestore.Memory(t), set(t, policy.Config{Key: all(), Limits: limits("1 concurrency")}), weirconnect.Config{})
		c := serve(t, echo{}, []connect.Interceptor{ended, limit}, opts...)
		other := dial(t, c.url)
		for i := range 2 {
			s := c.chat(t.Context())
			if err := exchange(s); err != nil {
				t.Fatalf("%s: stream %d: %v", protocol, i+1, err)
			}
			if err := other.one(t.Context()); code(err) != connect.CodeResourceExhausted {
				t.Errorf("%s: a second stream beside stream %d: %v, want a denial", protocol, i+1, err)
			}
			<-ended
			if _, err := other.say(t.Context()); code(err) != connect.CodeResourceExhausted {
				t.Errorf("%s: a call beside stream %d: %v, want a denial", protocol, i+1, err)
			}
			<-ended
			if i == 0 {
				_ = s.CloseRequest()
				_ = s.CloseResponse()
			} else {
				c.breakOff()
			}
			<-ended
			if _, err := other.say(t.Context()); err != nil {
				t.Errorf("%s: after stream %d: %v, want a free slot", protocol, i+1, err)
			}
			<-ended
		}
	}
}

// TestCost checks the cost in a trailer, a header or the metadata of an error.
func TestCost(t *testing.T) {
	for _, w := range []struct {
		name            string
		header, trailer string
		meta            string
		cost            int64
	}{
		{"none", "", "", "", 3},
		{"header", "7", "", "", 7},
		{"trailer", "", " 9 ", "", 9},
		{"both", "7", "9", "", 9},
		{"nothing", "", "0", "", 0},
		{"error", "", "", "5", 5},
		{"no number", "", "many", "", 3},
		{"negative", "-1", "", "", 3},
		{"too large", "", "99999999999999999999", "", 3},
	} {
		tell := func(header, trailer http.Header) error {
			for h, v := range map[*http.Header]string{&header: w.header, &trailer: w.trailer} {
				if v != "" {
					h.Set("X-Cost", v)
				}
			}
			if w.meta == "" {
				return nil
			}
			err := connect.NewError(connect.CodeAborted, errors.New("no"))
			err.Meta().Set("X-Cost", w.meta)
			return err
		}
		for _, kind := range []string{"unary", "stream"} {
			store, ended := still(t), make(after, 1)
			limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Cost: 3, Settle: policy.Settle{Header: "X-Cost"}}), weirconnect.Config{})
			c := serve(t, echo{
				say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
					resp := connect.NewResponse(r.Msg)
					if err := tell(resp.Header(), resp.Trailer()); err != nil {
						return nil, err
					}
					return resp, nil
				},
				chat: func(_ context.Context, s *stream) error { return tell(s.ResponseHeader(), s.ResponseTrailer()) },
			}, []connect.Interceptor{ended, limit})
			if kind == "unary" {
				_, _ = c.say(t.Context())
			} else {
				_ = c.one(t.Context())
			}
			<-ended
			if got := 100 - left(t, store, everybody, "100/h"); got != w.cost {
				t.Errorf("%s, %s: cost %d, want %d", w.name, kind, got, w.cost)
			}
		}
	}
}

// TestClientGone checks that a client that disconnects is charged.
func TestClientGone(t *testing.T) {
	store, ended, running := still(t), make(after, 1), make(chan struct{})
	limit := server(t, store, set(t, policy.Config{Key: all(), Limits: limits("100/h"), Count: policy.CountFailures}), weirconnect.Config{})
	c := serve(t, echo{say: func(ctx context.Context, r *connect.Request[text]) (*response, error) {
		close(running)
		<-ctx.Done()
		return connect.NewResponse(r.Msg), nil
	}}, []connect.Interceptor{ended, limit})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-running
		cancel()
	}()
	if _, err := c.say(ctx); code(err) != connect.CodeCanceled {
		t.Errorf("call = %v, want canceled", err)
	}
	<-ended
	if got := 100 - left(t, store, everybody, "100/h"); got != 1 {
		t.Errorf("cost %d, want 1", got)
	}
}

// TestSetPolicies checks that a running server decides by new policies with the state of the keys.
func TestSetPolicies(t *testing.T) {
	s := server(t, still(t), set(t, policy.Config{Key: all(), Limits: limits("1/h")}), weirconnect.Config{})
	c := serve(t, echo{}, []connect.Interceptor{s})
	call := func() connect.Code {
		_, err := c.say(t.Context())
		return code(err)
	}
	if first, second := call(), call(); first != 0 || second != connect.CodeResourceExhausted {
		t.Errorf("1/h: %v and %v, want one call", first, second)
	}
	for _, limit := range []string{"2/h", "1/h"} {
		if err := s.SetPolicies(set(t, policy.Config{Key: all(), Limits: limits(limit)})); err != nil {
			t.Fatal(err)
		}
	}
	if got := call(); got != connect.CodeResourceExhausted {
		t.Errorf("1/h again: %v, want the state of before", got)
	}
	if err := s.SetPolicies(nil); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("SetPolicies(nil) = %v, want ErrInvalid", err)
	}
	if err := s.SetPolicies(new(policy.Set)); err != nil || call() != 0 {
		t.Errorf("SetPolicies = %v, want no limit", err)
	}
}
