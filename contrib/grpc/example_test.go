package weirgrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// serveHealth is a server of the health service, with opts, and what stops it.
func serveHealth(opts ...grpc.ServerOption) (addr string, stop func(), err error) {
	server := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), server.Stop, nil
}

func newLimits(store weir.Store) (*weirgrpc.Server, error) {
	p, err := policy.New(policy.Config{
		Name:   "checks",
		Match:  policy.Match{Paths: []string{"/grpc.health.v1.Health/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("2/h")},
	})
	if err != nil {
		return nil, err
	}
	set, err := policy.NewSet(p)
	if err != nil {
		return nil, err
	}
	return weirgrpc.New(store, set, weirgrpc.Config{})
}

// ExampleNew shows a server whose clients may call a service twice an hour each.
func ExampleNew() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limits, err := newLimits(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	addr, stop, err := serveHealth(
		grpc.ChainUnaryInterceptor(limits.Unary),
		grpc.ChainStreamInterceptor(limits.Stream),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		after, denied := weirgrpc.RetryAfter(err)
		fmt.Println(status.Code(err), denied, after.Round(time.Minute))
	}
	// Output:
	// OK false 0s
	// OK false 0s
	// ResourceExhausted true 30m0s
}

// ExampleNewClient shows a client that sends two calls a day, and waits for up to five seconds
// where a server asks it to. Others that share the store share the two.
func ExampleNewClient() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	budget, err := weir.New(store, weir.MustLimit("2/24h"), weir.Config{Prefix: "health"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pace, err := weirgrpc.NewClient(weirgrpc.ClientConfig{Limiter: budget, MaxWait: 5 * time.Second, Retries: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	addr, stop, err := serveHealth()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(pace.Unary),
		grpc.WithChainStreamInterceptor(pace.Stream),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}

func ExampleRetryAfter() {
	err := status.Error(codes.ResourceExhausted, "message too large")
	_, ok := weirgrpc.RetryAfter(err)
	fmt.Println(ok)
	// Output: false
}

func ExampleHTTPStatus() {
	fmt.Println(weirgrpc.HTTPStatus(codes.OK), weirgrpc.HTTPStatus(codes.InvalidArgument), weirgrpc.HTTPStatus(codes.ResourceExhausted))
	// Output: 200 400 429
}

// ExampleConfig_messages shows fifty messages a second on all streams of a client together,
// each held back until its turn for up to a second.
func ExampleConfig_messages() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:     "messages",
		Key:      []policy.KeyPart{{Source: policy.Claim, Name: "sub"}},
		Limits:   []weir.Limit{weir.MustLimit("50/s")},
		OnDenied: policy.OnDenied{Wait: time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := policy.NewSet(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = weirgrpc.New(store, &policy.Set{}, weirgrpc.Config{Messages: messages})
	fmt.Println(err)
	// Output: <nil>
}

// ExampleLimit limits each client address.
func ExampleLimit() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	limits := weirgrpc.Limit(store, "1/h", weirgrpc.ByIP)
	addr, stop, err := serveHealth(grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 2 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}
