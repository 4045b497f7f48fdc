package weirgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/enforce"
)

// A stream is what a handler has of a streaming call. Like any other, it is read by one
// goroutine at a time.
type stream struct {
	grpc.ServerStream
	ctx     context.Context
	server  *Server
	method  string
	told    *told // nil if nobody looks for a cost
	limited bool  // messages are
	pass    enforce.Admission
	denied  error // what RecvMsg returns from now on
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SetHeader(md metadata.MD) error {
	s.told.header(md)
	return s.ServerStream.SetHeader(md)
}

func (s *stream) SendHeader(md metadata.MD) error {
	s.told.header(md)
	return s.ServerStream.SendHeader(md)
}

func (s *stream) SetTrailer(md metadata.MD) {
	s.told.trailer(md)
	s.ServerStream.SetTrailer(md)
}

// RecvMsg returns a message that was admitted. The message is there before it is asked
// for, so that the end of a stream costs nothing.
func (s *stream) RecvMsg(m any) error {
	if s.denied != nil {
		return s.denied
	}
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
	return s.denied
}
