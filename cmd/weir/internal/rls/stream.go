package rls

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// StreamMethod is the full name of the method of stream.proto. Its messages are those of
// Envoy's protocol. A request on an open stream costs about a third of the CPU time of a call.
const StreamMethod = "/" + streamService + "/" + streamName

const (
	streamService = "weir.ratelimit.v1.RateLimitStream"
	streamName    = "ShouldRateLimit"
)

// A decider decides the requests of a stream.
type decider interface {
	decideStream(grpc.ServerStream) error
}

// streamDesc describes the service of stream.proto.
func streamDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: streamService, HandlerType: (*decider)(nil), Metadata: "stream.proto",
		Streams: []grpc.StreamDesc{{
			StreamName: streamName, ServerStreams: true, ClientStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error { return s.(decider).decideStream(stream) },
		}},
	}
}

// A session is one stream of requests.
type session struct {
	server *Server
	stream grpc.ServerStream
	ctx    context.Context // of the decisions; a drain does not end it

	mu     sync.Mutex // held from a request until its response is sent
	closed bool       // no further requests are decided
}

// decideStream decides the requests of a stream in their order. When the server drains, it sends
// the response in progress and ends the stream with codes.Unavailable.
func (s *Server) decideStream(stream grpc.ServerStream) error {
	one := &session{server: s, stream: stream, ctx: stream.Context()}
	if e, ok := stream.(ending); ok {
		one.ctx = e.ServerStream.Context()
	}
	ended := make(chan error, 1)
	go func() { ended <- one.run() }() // a receive ends only with the stream
	select {
	case err := <-ended:
		return err
	case <-stream.Context().Done():
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.closed = true
	return status.Error(codes.Unavailable, "rls: the stream was canceled, or the server stops")
}

// run decides requests until the stream ends.
func (n *session) run() error {
	var r pb.RateLimitRequest // used again for each request
	for {
		if err := n.stream.RecvMsg(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := n.decide(&r); err != nil {
			return err
		}
	}
}

// decide answers one request. A panic becomes an error, as in a call.
func (n *session) decide(r *pb.RateLimitRequest) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			n.server.c.Log.LogAttrs(n.ctx, slog.LevelError, "panic in a stream", slog.Any("panic", p))
			err = status.Error(codes.Internal, "rls: internal error")
		}
	}()
	if n.closed {
		return status.Error(codes.Unavailable, "rls: the server stops")
	}
	response, err := n.server.ShouldRateLimit(n.ctx, r)
	if err != nil {
		return err
	}
	return n.stream.SendMsg(response)
}
