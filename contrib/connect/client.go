package weirconnect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/floodweir/weir/rpclimit"
)

// ClientConfig configures a Client.
type ClientConfig = rpclimit.PacerConfig

// A Client limits outgoing calls, and pauses for as long as a server asks with a RetryInfo in
// the details of CodeResourceExhausted or CodeUnavailable, for at most a day. It is a
// connect.Interceptor for clients, and can be used by many; in a handler it does nothing.
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
		return nil, fmt.Errorf("weirconnect: client: %w", err)
	}
	return &Client{p}, nil
}

// WrapUnary implements connect.Interceptor.
func (c *Client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		call := c.pacer.Call(ctx, req.Peer().Addr, req.Spec().Procedure)
		err = c.pacer.Unary(ctx, call, func() (err error) {
			resp, err = next(ctx, req)
			return err
		})
		return resp, err
	}
}

// WrapStreamingClient implements connect.Interceptor. The call waits before its stream
// is returned.
func (c *Client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec) // nothing is sent yet
		call := c.pacer.Call(ctx, conn.Peer().Addr, spec.Procedure)
		if err := c.pacer.Admit(ctx, call); err != nil {
			return &unsentStream{StreamingClientConn: conn, err: err, header: http.Header{}, trailer: http.Header{}}
		}
		return &clientStream{conn, c.pacer, call}
	}
}

// WrapStreamingHandler implements connect.Interceptor. It does nothing.
func (c *Client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// A clientStream observes the end of its call.
type clientStream struct {
	connect.StreamingClientConn
	pacer *rpclimit.Pacer
	call  rpclimit.Call
}

func (s *clientStream) Receive(m any) error {
	err := s.StreamingClientConn.Receive(m)
	s.pacer.Observe(s.call, err)
	return err
}

// An unsentStream is a stream of a denied call. It sends nothing to the server.
type unsentStream struct {
	connect.StreamingClientConn
	err             error
	header, trailer http.Header
}

func (s *unsentStream) Send(any) error               { return s.err }
func (s *unsentStream) CloseRequest() error          { return nil }
func (s *unsentStream) Receive(any) error            { return s.err }
func (s *unsentStream) ResponseHeader() http.Header  { return s.header }
func (s *unsentStream) ResponseTrailer() http.Header { return s.trailer }
func (s *unsentStream) CloseResponse() error         { return nil }

// RetryAfter returns when a call that ended with err may be repeated, if err has the code
// connect.CodeResourceExhausted or CodeUnavailable and a RetryInfo.
func RetryAfter(err error) (time.Duration, bool) {
	var e *connect.Error
	if !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted && e.Code() != connect.CodeUnavailable {
		return 0, false
	}
	for _, d := range e.Details() {
		m, err := d.Value()
		if err != nil {
			continue // of an unknown type
		}
		if info, ok := m.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			if delay := info.GetRetryDelay().AsDuration(); delay > 0 {
				return delay, true
			}
		}
	}
	return 0, false
}
