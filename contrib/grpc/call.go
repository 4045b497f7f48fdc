package weirgrpc

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
)

// A call is one call at a Server. It is used again.
type call struct {
	attributes attributes
	pass       enforce.Admission
}

// A caller is where metadata for the caller goes.
type caller interface {
	SetHeader(metadata.MD) error
	SetTrailer(metadata.MD)
}

// begin decides about a call. It returns nil and how the call ends, or a call to end.
func (s *Server) begin(ctx context.Context, method string, to caller) (*call, error) {
	c := s.pool.Get().(*call)
	c.attributes = attributes{ctx: ctx, method: method, client: &s.c.Client}
	if s.calls.Enter(ctx, &c.attributes, &c.pass).Passes() {
		if md := metadataOf(s.describe(httplimit.Items(nil, &c.pass))); md != nil {
			_ = to.SetHeader(md) // whoever sent the headers before wanted them as they were
		}
		return c, nil
	}
	md, err := s.refusal(ctx, &c.pass)
	to.SetTrailer(md) // without headers, or no retry policy of a client would be asked
	s.done(c)
	return nil, err
}

// done is the end of a call that holds nothing any more.
func (s *Server) done(c *call) {
	c.pass.Exit(enforce.Result{}) // it forgets the call, too
	c.attributes = attributes{}
	s.pool.Put(c)
}

// run calls f, which is the handler, and settles what the call holds by its end.
func (s *Server) run(ctx context.Context, c *call, told *told, f func() error) (err error) {
	panicked := true
	defer func() {
		r := enforce.Result{Status: http.StatusInternalServerError, ClientGone: ctx.Err() != nil}
		if !panicked {
			r.Status = HTTPStatus(codeOf(err))
		}
		if told != nil {
			r.CostFromResponse = told.tells
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
	inner, told := s.watch(ctx)
	err = s.run(ctx, c, told, func() (err error) {
		resp, err = handler(inner, req)
		return err
	})
	return resp, err
}

// unary is the caller of a unary call.
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
	var told *told
	wrapped := &stream{ServerStream: ss, ctx: ctx, server: s, method: info.FullMethod, limited: s.messages != nil && info.IsClientStream}
	holds := c.pass.NeedsExit()
	if holds {
		wrapped.ctx, told = s.watch(ctx)
		wrapped.told = told
	}
	if wrapped.limited || told != nil {
		ss = wrapped
	}
	if !holds {
		s.done(c)
		return handler(srv, ss)
	}
	return s.run(ctx, c, told, func() error { return handler(srv, ss) })
}
