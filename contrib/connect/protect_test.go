package weirconnect_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakeprotect"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/rpclimit"
)

func protected(all ...protect.Protection) rpclimit.ProtectConfig {
	return rpclimit.ProtectConfig{Chain: protect.New(protect.Config{Protections: all})}
}

// TestProtect checks the result of a call that a protection gets, and the error of a rejected
// call, in each protocol.
func TestProtect(t *testing.T) {
	for name, opts := range protocols() {
		t.Run(name, func(t *testing.T) {
			r := fakeprotect.New("breaker")
			c := weirconnect.Config{Protect: protected(r)}
			c.Protect.Class = enforce.Classify(set(t, policy.Config{
				Name: "echo-", Match: policy.Match{Paths: []string{"/test.Echo/*"}}, Limits: limits("1/s"),
			}))
			var result error
			s := server(t, still(t), set(t, policy.Config{Limits: limits("3/h burst 3")}), c)
			cc := serve(t, echo{say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
				return connect.NewResponse(r.Msg), result
			}}, []connect.Interceptor{s}, opts...)
			say := func() error { _, err := cc.say(t.Context()); return err }
			for _, c := range []struct {
				err  error
				want string
			}{
				{nil, "echo-ok"}, {connect.NewError(connect.CodeNotFound, nil), "echo-ok"}, {errors.New("down"), "echo-failed"}, {nil, "echo-not made"},
			} {
				result = c.err
				_ = say()
				r.Want(t, c.want)
			}
			r.Refuse = &protect.Refused{Reason: errors.New("open"), RetryAfter: 10 * time.Second}
			for kind, call := range map[string]func() error{"unary": say, "stream": func() error { return cc.one(t.Context()) }} {
				err := call()
				retry, _, meta := details(err)
				if d := retry.GetRetryDelay().AsDuration(); code(err) != connect.CodeUnavailable || d < 10*time.Second || d > 11*time.Second || rejectedBy(err) != "breaker" {
					t.Errorf("%s: %v, retry after %v, by %q", kind, err, d, rejectedBy(err))
				}
				if !slices.Equal(meta.Values("Weir-Protection"), []string{"breaker"}) || meta.Get("Retry-After") == "" {
					t.Errorf("%s: metadata %v", kind, meta)
				}
			}
		})
	}
}

// rejectedBy returns the name of the protection in the details of an error.
func rejectedBy(err error) string {
	var e *connect.Error
	if errors.As(err, &e) {
		for _, d := range e.Details() {
			m, _ := d.Value()
			if m, ok := m.(*errdetails.ErrorInfo); ok && m.GetReason() == rpclimit.ReasonProtection && m.GetDomain() == rpclimit.Domain {
				return m.GetMetadata()["protection"]
			}
		}
	}
	return ""
}

// TestProtectStream checks that a breaker gets the result with the first message, and that a
// bulkhead holds its slot until the stream ends. A denied message is neither success nor failure.
func TestProtectStream(t *testing.T) {
	breaker, bulkhead := fakeprotect.New("breaker"), fakeprotect.New("bulkhead")
	bulkhead.Whole = true
	c := weirconnect.Config{Protect: protected(breaker, bulkhead)}
	s := serve(t, echo{}, []connect.Interceptor{server(t, still(t), set(t), c)}).chat(t.Context())
	for range 2 {
		if err := exchange(s); err != nil {
			t.Fatal(err)
		}
	}
	breaker.Want(t, "ok")
	bulkhead.None(t)
	_ = s.CloseRequest()
	_, _ = s.Receive() // its end
	_ = s.CloseResponse()
	bulkhead.Want(t, "ok")

	c.Messages = set(t, policy.Config{Block: true})
	if err := serve(t, echo{}, []connect.Interceptor{server(t, still(t), set(t), c)}).one(t.Context()); code(err) != connect.CodeResourceExhausted {
		t.Errorf("a denied message: %v", err)
	}
	breaker.Want(t, "not made")
	bulkhead.Want(t, "ok")
}
