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

// A ClientConfig tunes a Client. Its zero value paces nothing, and obeys servers.
type ClientConfig struct {
	// Limiter, if not nil, is asked for a token before each call, and again before a
	// call is repeated. What shares its store shares the budget. A concurrency limit
	// cannot pace: nobody would give its slots back.
	Limiter *weir.Limiter

	// Key says whose budget a call is of: what Limiter is asked about. A call for which
	// it is empty is not paced. If Key is nil, it is the target of the connection. A key
	// that is longer than a store takes ends the call with INVALID_ARGUMENT.
	//
	// What a server says about retrying holds for calls of the same key to the same
	// method of the same target: with many users behind one connection, let Key be the
	// user.
	Key func(ctx context.Context, target, method string) string

	// MaxWait is the longest that a call is held back. One that would have to wait for
	// longer, or beyond the deadline of its context, ends at once, unsent, with
	// RESOURCE_EXHAUSTED and a RetryInfo. DefaultMaxWait if zero; no call waits if it is
	// negative.
	MaxWait time.Duration

	// Retries is how often a unary call that a server denied with a RetryInfo is
	// repeated once that time has passed: 0 to 10. A streaming call never is.
	Retries int

	// OnStoreError says what becomes of a call that Limiter's store could not decide:
	// policy.Open, the default, sends it; policy.Closed ends it with UNAVAILABLE. For
	// policy.Local, give Limiter a store of package failover.
	OnStoreError policy.FailMode
}

// DefaultMaxWait is the MaxWait of a ClientConfig that names none.
const DefaultMaxWait = rpclimit.DefaultMaxWait

// A Client paces calls where they go out, and obeys servers that say when to retry: with
// a RetryInfo in the details of RESOURCE_EXHAUSTED or UNAVAILABLE, for at most a day. It
// may serve many connections.
type Client struct {
	pacer *rpclimit.Pacer
}

// NewClient makes a Client. An error wraps weir.ErrInvalid.
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

// Unary paces unary calls. It is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return c.pacer.Unary(ctx, c.pacer.Call(ctx, cc.Target(), method), func() error {
		return invoker(ctx, method, req, reply, cc, opts...)
	})
}

// Stream paces the beginning of streaming calls. It is a grpc.StreamClientInterceptor.
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

// A clientStream hears how its call ends.
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

// RetryAfter is when a call that ended with err may be repeated, if err is of code
// RESOURCE_EXHAUSTED or UNAVAILABLE and says so in a RetryInfo.
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
