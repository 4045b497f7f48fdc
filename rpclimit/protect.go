package rpclimit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// A ProtectConfig configures how calls are rejected while a resource is overloaded: see package
// protect. Its zero value rejects nothing.
type ProtectConfig struct {
	// Chain decides about calls before the policies. It may be shared by servers of one
	// resource.
	Chain *protect.Chain

	// Class returns the priority class of a call, for a [protect.System], such as
	// enforce.Classify does; all calls have the default class if nil.
	Class func(policy.Attributes) string

	// Exempt reports whether a call is neither limited nor measured; the calls of
	// grpc.health.v1.Health are if nil.
	Exempt func(policy.Attributes) bool

	// Failed reports whether a call that ended with this code failed. If nil, Unknown,
	// DeadlineExceeded, Internal, Unavailable and DataLoss did. A call that its client
	// canceled has neither failed nor succeeded.
	Failed func(Code) bool
}

// errFailed is the result of a call that failed.
var errFailed = errors.New("rpclimit: the call failed")

// Enter decides about a call with attributes a. If it is not admitted, the End is not nil and
// says how it ends; up to jitter, a second if zero, is added to its retry delay. Otherwise the call
// continues with the context. The caller ends the Pass, which is nil without protection, with
// Result, or cancels it if a policy denies the call.
func (c *ProtectConfig) Enter(ctx context.Context, a policy.Attributes, jitter time.Duration) (context.Context, *protect.Pass, *End) {
	if c.Chain == nil || c.exempt(a) {
		return ctx, nil, nil
	}
	class := ""
	if c.Class != nil {
		class = c.Class(a)
	}
	inner, pass, err := c.Chain.Enter(ctx, class)
	if err == nil {
		return inner, pass, nil
	}
	if ctx.Err() != nil {
		e := canceled(ctx)
		return ctx, nil, &e
	}
	if jitter == 0 {
		jitter = time.Second
	}
	name, retry := "protection", time.Second
	var rejected *protect.Rejected
	if errors.As(err, &rejected) {
		name, retry = rejected.Name, rejected.RetryAfter()
	}
	e := end(Unavailable, "rejected by protection "+name, later(retry, jitter))
	e.Protection = name
	return ctx, nil, &e
}

func (c *ProtectConfig) exempt(a policy.Attributes) bool {
	if c.Exempt != nil {
		return c.Exempt(a)
	}
	return strings.HasPrefix(a.Path(), "/grpc.health.v1.Health/")
}

// Result returns the error for [protect.Pass.End] of a call that ended with code, whose context
// is ctx.
func (c *ProtectConfig) Result(ctx context.Context, code Code) error {
	failed := c.Failed
	if failed == nil {
		failed = Code.failed
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case failed(code):
		return errFailed
	}
	return nil
}

// failed reports whether a server that ends a call with c failed. Unimplemented is a mistake of
// the client.
func (c Code) failed() bool { return c != Unimplemented && c.HTTPStatus() >= 500 }
