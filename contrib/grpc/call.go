package weirgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/rpclimit"
)

// A call is one call at a Server. It is reused.
type call struct {
	attributes attributes
	pass       enforce.Admission
	protected  *protect.Pass // nil without protection
}

// A caller receives metadata for the client.
type caller interface {
	SetHeader(metadata.MD) error
	SetTrailer(metadata.MD)
}

// begin decides a call. It returns the call and its context if it is admitted, otherwise its
// error.
func (s *Server) begin(ctx context.Context, method string, to caller) (context.Context, *call, error) {
	c := s.pool.Get().(*call)
	c.attributes = attributes{ctx: ctx, method: method, client: &s.c.Client}
	ctx, pass, rejected := s.c.Protect.Enter(ctx, &c.attributes, s.c.RetryJitter)
	if rejected != nil {
		md, err := rejection(rejected)
		to.SetTrailer(md)
		s.done(c)
		return nil, nil, err
	}
	c.protected = pass
	admitted := false
	defer func() {
		if !admitted {
			pass.Cancel() // also if a configured function panics
		}
	}()
	start := pass.Now()
	if s.calls.Enter(ctx, &c.attributes, &c.pass).Passes() {
		admitted = true
		pass.Waited(start)
		if md := metadataOf(s.describe(httplimit.Items(nil, &c.pass))); md != nil {
			_ = to.SetHeader(md) // fails if the headers were sent already
		}
		return ctx, c, nil
	}
	md, err := s.refusal(ctx, &c.pass)
	to.SetTrailer(md) // without headers, so that clients apply their retry policy
	s.done(c)
	return nil, nil, err
}

// done releases a call that holds nothing.
func (s *Server) done(c *call) {
	c.pass.Exit(enforce.Result{}) // clears its references too
	c.attributes, c.protected = attributes{}, nil
	s.pool.Put(c)
}

// run calls the handler f and settles the admissions of the call by its result.
func (s *Server) run(ctx context.Context, c *call, costs *costs, f func() error) (err error) {
	panicked := true
	defer func() {
		code := codes.Internal
		if !panicked {
			code = codeOf(err)
		}
		c.protected.End(s.c.Protect.Result(ctx, rpclimit.Code(code)))
		r := enforce.Result{Status: HTTPStatus(code), ClientGone: ctx.Err() != nil}
		if costs != nil {
			r.CostFromResponse = costs.cost
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

// Unary limits unary calls. It is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	ctx, c, err := s.begin(ctx, info.FullMethod, unary{ctx})
	if err != nil {
		return nil, err
	}
	if !c.pass.NeedsExit() && c.protected == nil {
		s.done(c)
		return handler(ctx, req)
	}
	inner, costs := c.watch(ctx)
	err = s.run(ctx, c, costs, func() (err error) {
		resp, err = handler(inner, req)
		return err
	})
	return resp, err
}

// unary implements caller for a unary call.
type unary struct{ ctx context.Context }

func (u unary) SetHeader(md metadata.MD) error { return grpc.SetHeader(u.ctx, md) }
func (u unary) SetTrailer(md metadata.MD)      { _ = grpc.SetTrailer(u.ctx, md) }

// Stream limits streaming calls. It is a grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, c, err := s.begin(ss.Context(), info.FullMethod, ss)
	if err != nil {
		return err
	}
	var found *costs
	wrapped := &stream{ServerStream: ss, ctx: ctx, server: s, method: info.FullMethod, limited: s.messages != nil && info.IsClientStream, protected: c.protected}
	holds := c.pass.NeedsExit() || c.protected != nil
	if c.pass.NeedsExit() {
		wrapped.ctx, found = c.watch(ctx)
		wrapped.costs = found
	}
	if wrapped.limited || found != nil || c.protected != nil {
		ss = wrapped
	}
	if !holds {
		s.done(c)
		return handler(srv, ss)
	}
	return s.run(ctx, c, found, func() error { return handler(srv, ss) })
}
