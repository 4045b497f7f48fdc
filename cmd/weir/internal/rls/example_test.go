package rls_test

import (
	"context"
	"fmt"
	"net"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func Example() {
	limits, err := ratelimit.Parse("messaging.yaml", []byte(`
domain: messaging
descriptors:
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	store, _ := memstore.New(memstore.Config{})
	defer store.Close()
	s, err := rls.New(rls.Config{Store: store, Limits: limits})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := rls.NewServer(rls.ServerConfig{})
	s.Register(g)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	go g.Serve(l)
	defer g.Shutdown(context.Background())

	conn, _ := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	defer conn.Close()
	client := pb.NewRateLimitServiceClient(conn)
	for range 3 {
		r, err := client.ShouldRateLimit(context.Background(), &pb.RateLimitRequest{
			Domain:      "messaging",
			Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "to_number", Value: "2061111111"}}}},
		})
		fmt.Println(r.GetOverallCode(), r.GetStatuses()[0].GetLimitRemaining(), err)
	}
	// Output:
	// OK 1 <nil>
	// OK 0 <nil>
	// OVER_LIMIT 0 <nil>
}
