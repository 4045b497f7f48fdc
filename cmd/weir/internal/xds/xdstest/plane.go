// Package xdstest is a control plane for tests: the server of go-control-plane.
package xdstest

import (
	"context"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/internal/porttest"
)

// A Plane is a control plane with the resources of one node.
type Plane struct {
	// Requests receives every request, and Streams the headers of every stream, up to 1,000
	// of each.
	Requests chan *discovery.DiscoveryRequest
	Streams  chan metadata.MD

	// Addr is the address.
	Addr string

	cache  cache.SnapshotCache
	node   string
	server *grpc.Server
}

// New starts a control plane for a node at an address.
func New(t testing.TB, addr, node string, options ...grpc.ServerOption) *Plane {
	t.Helper()
	p := &Plane{
		Requests: make(chan *discovery.DiscoveryRequest, 1000), Streams: make(chan metadata.MD, 1000), Addr: addr,
		cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil), node: node, server: grpc.NewServer(options...),
	}
	callbacks := server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			headers, _ := metadata.FromIncomingContext(ctx)
			p.Streams <- headers
			return nil
		},
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			p.Requests <- r
			return nil
		},
	}
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, server.NewServer(t.Context(), p.cache, callbacks))
	l, err := porttest.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	go p.server.Serve(l)
	t.Cleanup(p.server.Stop)
	return p
}

// Stop closes all connections.
func (p *Plane) Stop() { p.server.Stop() }

// Set publishes a version of all resources.
func (p *Plane) Set(t testing.TB, version string, all ...*pb.RateLimitConfig) {
	t.Helper()
	resources := make([]types.Resource, len(all))
	for i, one := range all {
		resources[i] = one
	}
	s, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cache.SetSnapshot(t.Context(), p.node, s); err != nil {
		t.Fatal(err)
	}
}
