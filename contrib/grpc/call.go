package weirgrpc

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
)

// A call is one call at a Server. It is reused.
type call struct {
	attributes attributes
	pass       enforce.Admission
}

// A caller receives metadata for the client.
type caller interface {
	SetHeader(metadata.MD) error
	SetTrailer(metadata.MD)
}

// begin decides a call. It returns the call if it is admitted, otherwise its error.
func (s *Server) begin(ctx context.Context, method string, to caller) (*call, error) {
	c := s.pool.Get().(*call)
	c.attributes = attributes{ctx: ctx, method: method, client: &s.c.Client}
	if s.calls.Enter(ctx, &c.attributes, &c.pass).Passes() {
		if md := metadataOf(s.describe(httplimit.Items(nil, &c.pass))); md != nil {
			_ = to.SetHeader(md) // fails if the headers were sent already
		}
		return c, nil
	}
	md, err := s.refusal(ctx, &c.pass)
	to.SetTrailer(md) // without headers, so that clients apply their retry policy
	s.done(c)
	return nil, err
}

// done releases a call that holds nothing.
func (s *Server) done(c *call) {
	c.pass.Exit(enforce.Result{}) // clears its references too
	c.attributes = attributes{}
	s.pool.Put(c)
}

// run calls the handler f and settles the admission of the call by its result.
func (s *Server) run(ctx context.Context, c *call, costs *costs, f func() error) (err error) {
	panicked := true
	defer func() {
		r := enforce.Result{Status: http.StatusInternalServerError, ClientGone: ctx.Err() != nil}
		if !panicked {
			r.Status = HTTPStatus(codeOf(err))
		}
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
	c, err := s.begin(ctx, info.FullMethod, unary{ctx})
	if err != nil {
		return nil, err
	}
	if !c.pass.NeedsExit() {
		s.done(c)
		return handler(ctx, req)
	}
	inner, costs := s.watch(ctx)
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
	ctx := ss.Context()
	c, err := s.begin(ctx, info.FullMethod, ss)
	if err != nil {
		return err
	}
	var found *costs
	wrapped := &stream{ServerStream: ss, ctx: ctx, server: s, method: info.FullMethod, limited: s.messages != nil && info.IsClientStream}
	holds := c.pass.NeedsExit()
	if holds {
		wrapped.ctx, found = s.watch(ctx)
		wrapped.costs = found
	}
	if wrapped.limited || found != nil {
		ss = wrapped
	}
	if !holds {
		s.done(c)
		return handler(srv, ss)
	}
	return s.run(ctx, c, found, func() error { return handler(srv, ss) })
}
