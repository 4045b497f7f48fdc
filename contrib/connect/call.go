package weirconnect

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/rpclimit"
)

// A call is one call at a Server. It is reused.
type call struct {
	attributes attributes
	pass       enforce.Admission
	protected  *protect.Pass // nil without protection
}

// enter decides the call that a describes. If it is denied, err is its result. Otherwise
// the call continues with inner, and the caller calls run or done.
func (s *Server) enter(ctx context.Context, a attributes) (inner context.Context, c *call, err error) {
	c = s.pool.Get().(*call)
	c.attributes = a
	ctx, pass, rejected := s.c.Protect.Enter(ctx, &c.attributes, s.c.RetryJitter)
	if rejected != nil {
		s.done(c)
		return nil, nil, rejection(rejected, a.peer.Protocol)
	}
	c.protected = pass
	admitted := false
	defer func() {
		if !admitted {
			pass.Cancel() // also if a configured function panics
		}
	}()
	start := pass.Now()
	if !s.calls.Enter(ctx, &c.attributes, &c.pass).Passes() {
		err = s.refusal(ctx, &c.pass, a.peer.Protocol)
		s.done(c)
		return nil, nil, err
	}
	admitted = true
	pass.Waited(start)
	return ctx, c, nil
}

// holds reports whether the call has to be settled by its result.
func (c *call) holds() bool { return c.protected != nil || c.pass.NeedsExit() }

// done releases a call that holds nothing.
func (s *Server) done(c *call) {
	c.pass.Exit(enforce.Result{}) // clears its references too
	c.attributes, c.protected = attributes{}, nil
	s.pool.Put(c)
}

// run calls the handler f and settles the admissions of the call by its result. It reads a
// cost from the headers that costs returns.
func (s *Server) run(ctx context.Context, c *call, costs func(error) []http.Header, f func() error) (err error) {
	panicked := true
	defer func() {
		code := connect.CodeInternal
		if !panicked {
			code = codeOf(err)
		}
		c.protected.End(s.c.Protect.Result(ctx, rpclimit.Code(code)))
		r := enforce.Result{Status: HTTPStatus(code), ClientGone: ctx.Err() != nil}
		if !panicked {
			found := costs(err)
			r.CostFromResponse = func(s policy.Settle) (int64, error) { return cost(found, s.Header) }
		}
		c.pass.Exit(r)
		if !panicked {
			s.done(c)
		}
	}()
	err = f()
	panicked = false
	return err
}

// codeOf returns the code of a call's error, 0 for success.
func codeOf(err error) connect.Code {
	var e *connect.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code()
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}

// cost returns the number in the last line of a header, from the first of hs that has it.
func cost(hs []http.Header, name string) (int64, error) {
	for _, h := range hs {
		if lines := h.Values(name); len(lines) > 0 {
			return rpclimit.Cost(lines[len(lines)-1])
		}
	}
	return 0, budget.ErrNoUsage
}

// WrapUnary implements connect.Interceptor.
func (s *Server) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		ctx, c, err := s.enter(ctx, attributes{
			ctx: ctx, method: req.HTTPMethod(), procedure: req.Spec().Procedure, header: req.Header(), peer: req.Peer(), client: &s.c.Client,
		})
		if err != nil {
			return nil, err
		}
		items, degraded := httplimit.Items(nil, &c.pass)
		if c.holds() {
			err = s.run(ctx, c, func(err error) []http.Header { return unaryCosts(resp, err) }, func() (err error) {
				resp, err = next(ctx, req)
				return err
			})
		} else {
			s.done(c)
			resp, err = next(ctx, req)
		}
		if err == nil && resp != nil {
			s.describe(resp.Header(), items, degraded)
		}
		return resp, err
	}
}

// unaryCosts returns the headers of a unary call that may contain its cost.
func unaryCosts(resp connect.AnyResponse, err error) []http.Header {
	var e *connect.Error
	switch {
	case errors.As(err, &e):
		return []http.Header{e.Meta()}
	case err != nil || resp == nil:
		return nil
	}
	return []http.Header{resp.Trailer(), resp.Header()}
}

// WrapStreamingHandler implements connect.Interceptor.
func (s *Server) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, c, err := s.enter(ctx, attributes{
			ctx: ctx, method: http.MethodPost, procedure: conn.Spec().Procedure, header: conn.RequestHeader(), peer: conn.Peer(), client: &s.c.Client,
		})
		if err != nil {
			return err
		}
		items, degraded := httplimit.Items(nil, &c.pass)
		s.describe(conn.ResponseHeader(), items, degraded)
		inner := conn
		if limited := s.messages != nil && conn.Spec().StreamType&connect.StreamTypeClient != 0; limited || c.protected != nil {
			inner = &stream{StreamingHandlerConn: conn, ctx: ctx, server: s, limited: limited, protected: c.protected}
		}
		if !c.holds() {
			s.done(c)
			return next(ctx, inner)
		}
		costs := func(err error) []http.Header {
			hs := []http.Header{conn.ResponseTrailer(), conn.ResponseHeader()}
			if e := (*connect.Error)(nil); errors.As(err, &e) {
				hs = append(hs, e.Meta())
			}
			return hs
		}
		return s.run(ctx, c, costs, func() error { return next(ctx, inner) })
	}
}

// WrapStreamingClient implements connect.Interceptor. It does nothing.
func (s *Server) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// A stream wraps a streaming call whose messages are limited, or which is protected. One
// goroutine at a time reads it.
type stream struct {
	connect.StreamingHandlerConn
	ctx     context.Context
	server  *Server
	limited bool // messages are limited
	pass    enforce.Admission
	denied  error // the result of Receive from now on

	protected *protect.Pass // nil without protection
}

// Send sends a message. The first one ends the latency of the call.
func (s *stream) Send(m any) error {
	s.protected.Respond(nil)
	return s.StreamingHandlerConn.Send(m)
}

// Receive returns an admitted message. It reads the message before it takes tokens, so
// the end of a stream costs nothing. The time that it waits for the client is not latency.
func (s *stream) Receive(m any) error {
	if s.denied != nil {
		return s.denied
	}
	defer s.protected.Waited(s.protected.Now())
	if err := s.StreamingHandlerConn.Receive(m); err != nil || !s.limited {
		return err
	}
	a := attributes{
		ctx: s.ctx, method: http.MethodPost, procedure: s.Spec().Procedure, header: s.RequestHeader(), peer: s.Peer(), client: &s.server.c.Client,
	}
	if s.server.messages.Enter(s.ctx, &a, &s.pass).Passes() {
		s.pass.Exit(enforce.Result{})
		return nil
	}
	s.denied = s.server.refusal(s.ctx, &s.pass, a.peer.Protocol)
	s.protected.Respond(protect.ErrCanceled) // neither success nor failure
	return s.denied
}
