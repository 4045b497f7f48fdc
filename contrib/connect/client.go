package weirconnect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

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
	// it is empty is not paced. If Key is nil, it is the host of the server. A key that is
	// longer than a store takes ends the call with connect.CodeInvalidArgument.
	//
	// What a server says about retrying holds for calls of the same key to the same
	// procedure of the same host: with many users behind one client, let Key be the
	// user.
	Key func(ctx context.Context, host, procedure string) string

	// MaxWait is the longest that a call is held back. One that would have to wait for
	// longer, or beyond the deadline of its context, ends at once, unsent, with
	// connect.CodeResourceExhausted and a RetryInfo. DefaultMaxWait if zero; no call waits if it is
	// negative.
	MaxWait time.Duration

	// Retries is how often a unary call that a server denied with a RetryInfo is
	// repeated once that time has passed: 0 to 10. A streaming call never is.
	Retries int

	// OnStoreError says what becomes of a call that Limiter's store could not decide:
	// policy.Open, the default, sends it; policy.Closed ends it with
	// connect.CodeUnavailable. For
	// policy.Local, give Limiter a store of package failover.
	OnStoreError policy.FailMode
}

// DefaultMaxWait is the MaxWait of a ClientConfig that names none.
const DefaultMaxWait = rpclimit.DefaultMaxWait

// A Client paces calls where they go out, and obeys servers that say when to retry: with
// a RetryInfo in the details of CodeResourceExhausted or CodeUnavailable, for at most a
// day. It is a connect.Interceptor for clients, of which it may serve many; in a handler
// it does nothing.
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
// is there.
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

// A clientStream hears how its call ends.
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

// An unsentStream is one that was held back for good: it never asks the server.
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

// RetryAfter is when a call that ended with err may be repeated, if err is of
// connect.CodeResourceExhausted or CodeUnavailable and says so in a RetryInfo.
func RetryAfter(err error) (time.Duration, bool) {
	var e *connect.Error
	if !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted && e.Code() != connect.CodeUnavailable {
		return 0, false
	}
	for _, d := range e.Details() {
		m, err := d.Value()
		if err != nil {
			continue // of a kind that is not known here
		}
		if info, ok := m.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			if delay := info.GetRetryDelay().AsDuration(); delay > 0 {
				return delay, true
			}
		}
	}
	return 0, false
}
