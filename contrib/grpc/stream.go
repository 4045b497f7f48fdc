package weirgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/protect"
)

// A stream wraps the stream of a streaming call. One goroutine at a time reads it.
type stream struct {
	grpc.ServerStream
	ctx     context.Context
	server  *Server
	method  string
	costs   *costs // nil if no policy reads a cost
	limited bool   // messages are limited
	pass    enforce.Admission
	denied  error // the result of RecvMsg from now on

	protected *protect.Pass // nil without protection
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SetHeader(md metadata.MD) error {
	s.costs.header(md)
	return s.ServerStream.SetHeader(md)
}

func (s *stream) SendHeader(md metadata.MD) error {
	s.costs.header(md)
	return s.ServerStream.SendHeader(md)
}

func (s *stream) SetTrailer(md metadata.MD) {
	s.costs.trailer(md)
	s.ServerStream.SetTrailer(md)
}

// SendMsg sends a message. The first one ends the latency of the call.
func (s *stream) SendMsg(m any) error {
	s.protected.Respond(nil)
	return s.ServerStream.SendMsg(m)
}

// RecvMsg returns an admitted message. It reads the message before it takes tokens, so the
// end of a stream costs nothing. The time that it waits for the client is not latency.
func (s *stream) RecvMsg(m any) error {
	if s.denied != nil {
		return s.denied
	}
	defer s.protected.Waited(s.protected.Now())
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.limited {
		return err
	}
	a := attributes{ctx: s.ctx, method: s.method, client: &s.server.c.Client}
	if s.server.messages.Enter(s.ctx, &a, &s.pass).Passes() {
		s.pass.Exit(enforce.Result{})
		return nil
	}
	var md metadata.MD
	md, s.denied = s.server.refusal(s.ctx, &s.pass)
	s.ServerStream.SetTrailer(md)
	s.protected.Respond(protect.ErrCanceled) // neither success nor failure
	return s.denied
}
