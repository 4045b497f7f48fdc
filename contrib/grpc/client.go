package weirgrpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// A ClientConfig configures a Client. Its zero value has no limit, and pauses when servers ask
// for it.
type ClientConfig struct {
	// Limiter, if not nil, is asked for a token before each call and each retry. Clients
	// that share its store share the budget. A concurrency limit is refused: a client
	// does not return its slots.
	Limiter *weir.Limiter

	// Key returns the Limiter's key for a call; the target of the connection if nil. A call
	// whose key is empty is not charged. A key that is longer than a store accepts ends
	// the call with INVALID_ARGUMENT.
	//
	// A server's pause applies to calls of the same key to the same method of the same
	// target: if many users share a client, return the user.
	Key func(ctx context.Context, target, method string) string

	// MaxWait bounds how long a call is held back; DefaultMaxWait if zero, weir.NoWait or
	// weir.Unlimited. A call that would wait longer, or beyond the deadline of its
	// context, ends at once, unsent, with RESOURCE_EXHAUSTED and a
	// RetryInfo.
	MaxWait time.Duration

	// MaxWaiters bounds the calls that wait at a time; DefaultMaxWaiters if zero.
	MaxWaiters int

	// Retries is how often a unary call that a server denied with a RetryInfo is repeated
	// after that time: 0 to 10. A streaming call is not repeated.
	Retries int

	// OnStoreError decides about a call when Limiter's store makes no decision:
	// policy.Open, the default, sends it; policy.Closed ends it with
	// UNAVAILABLE. For policy.Local, set a Limiter of package failover.
	OnStoreError policy.FailMode
}

// DefaultMaxWait and DefaultMaxWaiters are the values of fields of ClientConfig that are zero.
const (
	DefaultMaxWait    = rpclimit.DefaultMaxWait
	DefaultMaxWaiters = rpclimit.DefaultMaxWaiters
)

// A Client limits outgoing calls, and pauses for as long as a server asks with a RetryInfo in
// the details of RESOURCE_EXHAUSTED or UNAVAILABLE, for at most a day. One Client can be used
// by many connections.
type Client struct {
	pacer *rpclimit.Pacer
}

// NewClient returns a Client. An error wraps weir.ErrInvalid.
func NewClient(c ClientConfig) (*Client, error) {
	p, err := rpclimit.NewPacer(rpclimit.PacerConfig(c), rpclimit.Dialect{
		Error:      func(e rpclimit.End) error { return errorOf(e) },
		RetryAfter: RetryAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("weirgrpc: client: %w", err)
	}
	return &Client{p}, nil
}

// Unary limits unary calls. It is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return c.pacer.Unary(ctx, c.pacer.Call(ctx, cc.Target(), method), func() error {
		return invoker(ctx, method, req, reply, cc, opts...)
	})
}

// Stream limits the start of streaming calls. It is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call := c.pacer.Call(ctx, cc.Target(), method)
	if err := c.pacer.Admit(ctx, call); err != nil {
		return nil, err
	}
	cs, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		c.pacer.Observe(call, err)
		return nil, err
	}
	return &clientStream{cs, c.pacer, call}, nil
}

// A clientStream observes the end of its call.
type clientStream struct {
	grpc.ClientStream
	pacer *rpclimit.Pacer
	call  rpclimit.Call
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.pacer.Observe(s.call, err)
	return err
}

// RetryAfter returns when a call that ended with err may be repeated, if err has the code
// RESOURCE_EXHAUSTED or UNAVAILABLE and a RetryInfo.
func RetryAfter(err error) (time.Duration, bool) {
	if err == nil {
		return 0, false
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return 0, false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			if delay := info.GetRetryDelay().AsDuration(); delay > 0 {
				return delay, true
			}
		}
	}
	return 0, false
}
