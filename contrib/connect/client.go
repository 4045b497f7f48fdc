package weirconnect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
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
const DefaultMaxWait = time.Minute

// A Client paces calls where they go out, and obeys servers that say when to retry: with
// a RetryInfo in the details of CodeResourceExhausted or CodeUnavailable, for at most a
// day. It is a connect.Interceptor for clients, of which it may serve many; in a handler
// it does nothing.
type Client struct {
	c     ClientConfig
	holds holds
}

// NewClient makes a Client. An error wraps weir.ErrInvalid.
func NewClient(c ClientConfig) (*Client, error) {
	switch {
	case c.Limiter != nil && c.Limiter.Limit().Config().Algorithm == weir.Concurrency:
		return nil, fmt.Errorf("weirconnect: client: limiter: limit %s: %w: want a rate: nobody gives a slot back", c.Limiter.Limit(), weir.ErrInvalid)
	case c.Retries < 0 || c.Retries > 10:
		return nil, fmt.Errorf("weirconnect: client: retries %d: %w: want 0 to 10", c.Retries, weir.ErrInvalid)
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Open
	case policy.Open, policy.Closed:
	default:
		return nil, fmt.Errorf("weirconnect: client: on store error %.60q: %w: want open or closed", c.OnStoreError, weir.ErrInvalid)
	}
	switch {
	case c.MaxWait == 0:
		c.MaxWait = DefaultMaxWait
	case c.MaxWait < 0:
		c.MaxWait = 0
	}
	if c.Key == nil {
		c.Key = func(_ context.Context, host, _ string) string { return host }
	}
	return &Client{c: c}, nil
}

// WrapUnary implements connect.Interceptor.
func (c *Client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		o := c.outgoing(ctx, req.Peer().Addr, req.Spec().Procedure)
		var denied error
		for retries := c.c.Retries; ; retries-- {
			if err := c.admit(ctx, o); err != nil {
				if denied != nil && connect.CodeOf(err) == connect.CodeResourceExhausted {
					return nil, denied // what the server said tells more
				}
				return nil, err
			}
			resp, err := next(ctx, req)
			if !c.heed(o, err) || retries == 0 {
				return resp, err
			}
			denied = err
		}
	}
}

// WrapStreamingClient implements connect.Interceptor. The call waits before its stream
// is there.
func (c *Client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec) // nothing is sent yet
		o := c.outgoing(ctx, conn.Peer().Addr, spec.Procedure)
		if err := c.admit(ctx, o); err != nil {
			return &unsentStream{StreamingClientConn: conn, err: err, header: http.Header{}, trailer: http.Header{}}
		}
		return &clientStream{conn, c, o}
	}
}

// WrapStreamingHandler implements connect.Interceptor. It does nothing.
func (c *Client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// A clientStream hears how its call ends.
type clientStream struct {
	connect.StreamingClientConn
	client *Client
	o      outgoing
}

func (s *clientStream) Receive(m any) error {
	err := s.StreamingClientConn.Receive(m)
	s.client.heed(s.o, err)
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

// An outgoing call.
type outgoing struct {
	key   string // of the limiter
	scope string // what a server's word holds for
}

func (c *Client) outgoing(ctx context.Context, host, procedure string) outgoing {
	key := c.c.Key(ctx, host, procedure)
	return outgoing{key, host + "\x00" + procedure + "\x00" + key}
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
		return ended(ctx)
	case errors.Is(err, weir.ErrInvalid): // no fault of the store's, and no way past the limit
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("call not sent: its limit cannot be asked: %w", err))
	case err != nil && c.c.OnStoreError == policy.Closed:
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("call not sent: its limit could not be decided: %w", err))
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

// unsent is the end of a call that would have had to wait for too long.
func unsent(why string, retry time.Duration) error {
	text := fmt.Sprintf("call not sent: held back by %s: %s", why, again(retry))
	if retry == weir.Never {
		return errorOf(connect.CodeResourceExhausted, text)
	}
	return errorOf(connect.CodeResourceExhausted, text, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
}
