package rls_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
	"google.golang.org/grpc"
)

// bare is a server that answers OK and does nothing.
type bare struct {
	pb.UnimplementedRateLimitServiceServer
}

func (bare) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// BenchmarkWire compares the forms of a request with a bare gRPC server, by descriptors per
// CPU second of client and server together, in interleaved rounds with 64 callers. The ratios
// are those to the bare server, and for a batch and a stream those to a call.
func BenchmarkWire(b *testing.B) {
	const callers, batch, rounds = 64, 128, 5
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	limits := parse(b, "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 4294967295}}\n")
	s := newServer(b, rls.Config{Store: store, Limits: limits, Observe: func(rls.Event) {}})
	listen := func(register func(*grpc.Server)) *grpc.ClientConn {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		g := rls.NewServer(rls.ServerConfig{})
		register(g.Server)
		go g.Serve(l)
		b.Cleanup(g.Stop)
		return dial(b, l.Addr().String())
	}
	weir := listen(func(g *grpc.Server) { s.Register(g) })
	floor := listen(func(g *grpc.Server) { pb.RegisterRateLimitServiceServer(g, bare{}) })

	request := func(caller, n int) *pb.RateLimitRequest {
		r := &pb.RateLimitRequest{Domain: "d"}
		for i := range n {
			r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("user-", caller, "-", i)}}})
		}
		return r
	}
	calls := func(conn grpc.ClientConnInterface, n int) func(caller int, more func() bool) error {
		return func(caller int, more func() bool) error {
			client, r := pb.NewRateLimitServiceClient(conn), request(caller, n)
			for more() {
				if _, err := client.ShouldRateLimit(b.Context(), r); err != nil {
					return err
				}
			}
			return nil
		}
	}
	forms := []struct {
		name        string
		descriptors int
		run         func(caller int, more func() bool) error
		base        int
	}{
		{"bare", 1, calls(floor, 1), 0},
		{"call", 1, calls(weir, 1), 0},
		{"batch128", batch, calls(weir, batch), 1},
		{"stream", 1, func(caller int, more func() bool) error {
			stream, r := open(b, weir), request(caller, 1)
			for more() {
				if err := stream.Send(r); err != nil {
					return err
				}
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
			return stream.CloseSend()
		}, 1},
	}
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	costs := make([][]float64, len(forms)) // CPU µs per descriptor, by round
	for range rounds {
		for i, f := range forms {
			var done atomic.Int64
			var all sync.WaitGroup
			start, begin := cpu(), time.Now()
			for caller := range callers {
				all.Go(func() {
					if err := f.run(caller, func() bool { done.Add(1); return time.Since(begin) < 400*time.Millisecond }); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			costs[i] = append(costs[i], float64((cpu()-start).Microseconds())/float64((done.Load()-callers)*int64(f.descriptors)))
		}
	}
	for i, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(costs[i]), "cpu-µs/descriptor")
			b.ReportMetric(middle(costs[f.base])/middle(costs[i]), "x-"+forms[f.base].name)
		})
	}
}

func middle(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	return vs[len(vs)/2]
}
