package weirgrpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir/rpclimit"
)

// ClientConfig configures a Client.
type ClientConfig = rpclimit.PacerConfig

// A Client limits outgoing calls, and pauses for as long as a server asks with a RetryInfo in
// the details of RESOURCE_EXHAUSTED or UNAVAILABLE, for at most a day. One Client can be used
// by many connections.
type Client struct {
	pacer *rpclimit.Pacer
}

// NewClient returns a Client. An error wraps weir.ErrInvalid.
func NewClient(c ClientConfig) (*Client, error) {
	p, err := rpclimit.NewPacer(c, rpclimit.Dialect{
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
