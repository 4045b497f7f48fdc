package weirgrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
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
const DefaultMaxWait = time.Minute

// A Client paces calls where they go out, and obeys servers that say when to retry: with
// a RetryInfo in the details of RESOURCE_EXHAUSTED or UNAVAILABLE, for at most a day. It
// may serve many connections.
type Client struct {
	c     ClientConfig
	holds holds
}

// NewClient makes a Client. An error wraps weir.ErrInvalid.
func NewClient(c ClientConfig) (*Client, error) {
	switch {
	case c.Limiter != nil && c.Limiter.Limit().Config().Algorithm == weir.Concurrency:
		return nil, fmt.Errorf("weirgrpc: client: limiter: limit %s: %w: want a rate: nobody gives a slot back", c.Limiter.Limit(), weir.ErrInvalid)
	case c.Retries < 0 || c.Retries > 10:
		return nil, fmt.Errorf("weirgrpc: client: retries %d: %w: want 0 to 10", c.Retries, weir.ErrInvalid)
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Open
	case policy.Open, policy.Closed:
	default:
		return nil, fmt.Errorf("weirgrpc: client: on store error %.60q: %w: want open or closed", c.OnStoreError, weir.ErrInvalid)
	}
	switch {
	case c.MaxWait == 0:
		c.MaxWait = DefaultMaxWait
	case c.MaxWait < 0:
		c.MaxWait = 0
	}
	if c.Key == nil {
		c.Key = func(_ context.Context, target, _ string) string { return target }
	}
	return &Client{c: c}, nil
}

// Unary paces unary calls. It is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	o := c.outgoing(ctx, cc, method)
	var denied error
	for retries := c.c.Retries; ; retries-- {
		if err := c.admit(ctx, o); err != nil {
			if denied != nil && status.Code(err) == codes.ResourceExhausted {
				return denied // what the server said tells more
			}
			return err
		}
		err := invoker(ctx, method, req, reply, cc, opts...)
		if !c.heed(o, err) || retries == 0 {
			return err
		}
		denied = err
	}
}

// Stream paces the beginning of streaming calls. It is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	o := c.outgoing(ctx, cc, method)
	if err := c.admit(ctx, o); err != nil {
		return nil, err
	}
	cs, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		c.heed(o, err)
		return nil, err
	}
	return &clientStream{cs, c, o}, nil
}

// A clientStream hears how its call ends.
type clientStream struct {
	grpc.ClientStream
	client *Client
	o      outgoing
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.client.heed(s.o, err)
	return err
}

// An outgoing call.
type outgoing struct {
	key   string // of the limiter
	scope string // what a server's word holds for
}

func (c *Client) outgoing(ctx context.Context, cc *grpc.ClientConn, method string) outgoing {
	target := cc.Target()
	key := c.c.Key(ctx, target, method)
	return outgoing{key, target + "\x00" + method + "\x00" + key}
}

// admit holds a call back until the server may be asked and the limiter admits it.
func (c *Client) admit(ctx context.Context, o outgoing) error {
	until := time.Now().Add(c.c.MaxWait)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	if err := c.holds.wait(ctx, o.scope, until); err != nil {
		return err
	}
	if c.c.Limiter == nil || o.key == "" {
		return nil
	}
	d, err := c.c.Limiter.Wait(ctx, o.key, 1, max(0, time.Until(until)))
	switch {
	case err != nil && ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, weir.ErrInvalid): // no fault of the store's, and no way past the limit
		return status.Errorf(codes.InvalidArgument, "call not sent: its limit cannot be asked: %v", err)
	case err != nil && c.c.OnStoreError == policy.Closed:
		return status.Errorf(codes.Unavailable, "call not sent: its limit could not be decided: %v", err)
	case err != nil:
		return nil
	case !d.OK:
		return unsent("the limit "+d.Limit.String(), d.RetryAfter)
	}
	// A server may have spoken while this one waited. Its token has come by then, and
	// is not given back: to be late is to have used one's turn.
	return c.holds.wait(ctx, o.scope, until)
}

// heed notes what a server said about retrying, and reports whether it did.
func (c *Client) heed(o outgoing, err error) bool {
	d, ok := RetryAfter(err)
	if ok {
		c.holds.set(o.scope, d)
	}
	return ok
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

// unsent is the end of a call that would have had to wait for too long.
func unsent(why string, retry time.Duration) error {
	text := fmt.Sprintf("call not sent: held back by %s: %s", why, again(retry))
	if retry == weir.Never {
		return status.Error(codes.ResourceExhausted, text)
	}
	return statusOf(codes.ResourceExhausted, text, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
}
