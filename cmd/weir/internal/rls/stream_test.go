package rls_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// open opens a stream of requests.
func open(t testing.TB, conn grpc.ClientConnInterface) *grpc.GenericClientStream[pb.RateLimitRequest, pb.RateLimitResponse] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, rls.StreamMethod)
	if err != nil {
		t.Fatal(err)
	}
	return &grpc.GenericClientStream[pb.RateLimitRequest, pb.RateLimitResponse]{ClientStream: s}
}

// TestStream checks that a stream answers as calls do, in the order of the requests, and that
// several may be on their way.
func TestStream(t *testing.T) {
	_, one := serve(t, newServer(t, rls.Config{ResponseHeaders: true}), rls.ServerConfig{})
	_, other := serve(t, newServer(t, rls.Config{ResponseHeaders: true}), rls.ServerConfig{})
	client, stream := pb.NewRateLimitServiceClient(dial(t, one)), open(t, dial(t, other))
	var requests []*pb.RateLimitRequest
	for i := range 300 {
		requests = append(requests, parseRequest(t, "d", fmt.Sprintf("user=%d hits=%d", i%7, i%5)))
	}
	go func() {
		for _, r := range requests {
			if err := stream.Send(r); err != nil {
				t.Errorf("Send = %v", err)
			}
		}
		stream.CloseSend()
	}()
	for i, r := range requests {
		want, err := client.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || !proto.Equal(got, want) {
			t.Fatalf("response %d = %v, %v, want %v", i, got, err, want)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last response: %v, want the end", err)
	}
}

// TestStreamErrors checks that an error ends the stream with the status of a call.
func TestStreamErrors(t *testing.T) {
	down := fake{doAll: func(context.Context, []weir.Request, []weir.Decision) (bool, error) {
		return false, weir.ErrUnavailable
	}}
	panics := fake{doAll: func(context.Context, []weir.Request, []weir.Decision) (bool, error) { panic("a bug") }}
	for _, test := range []struct {
		c    rls.Config
		r    *pb.RateLimitRequest
		want codes.Code
	}{
		{rls.Config{}, &pb.RateLimitRequest{}, codes.InvalidArgument},
		{rls.Config{Store: down}, parseRequest(t, "d", "user=a"), codes.Unavailable},
		{rls.Config{Store: panics}, parseRequest(t, "d", "user=a"), codes.Internal},
	} {
		_, addr := serve(t, newServer(t, test.c), rls.ServerConfig{})
		stream := open(t, dial(t, addr))
		if err := stream.Send(test.r); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); status.Code(err) != test.want {
			t.Errorf("%v, %v, want %s", got, err, test.want)
		}
	}
}

// TestStreamDrain checks that a shutdown ends idle streams, and first sends the response in
// progress.
func TestStreamDrain(t *testing.T) {
	deciding, decide := make(chan struct{}), make(chan struct{})
	slow := fake{doAll: func(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
		close(deciding)
		<-decide
		for i := range ds {
			ds[i] = weir.Decision{OK: true, Limit: rs[i].Limit}
		}
		return true, ctx.Err()
	}}
	g, addr := serve(t, newServer(t, rls.Config{Store: slow}), rls.ServerConfig{})
	conn := dial(t, addr)
	idle, busy := open(t, conn), open(t, conn)
	if err := busy.Send(parseRequest(t, "d", "user=a")); err != nil {
		t.Fatal(err)
	}
	<-deciding
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		ended <- g.Shutdown(ctx)
	}()
	if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the idle stream ends with %v, want Unavailable", err)
	}
	close(decide)
	if r, err := busy.Recv(); err != nil || r.GetOverallCode() != pb.RateLimitResponse_OK {
		t.Errorf("the response in progress = %v, %v, want OK", r, err)
	}
	if _, err := busy.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the busy stream ends with %v, want Unavailable", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}
