package rls

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"runtime"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// ServerConfig is the configuration of a gRPC server. Its zero value works.
type ServerConfig struct {
	// TLS is the configuration of TLS; plain text if nil.
	TLS *tls.Config

	// MaxRecv is the maximum size of a message in bytes; MaxMessage if zero.
	MaxRecv int

	// MaxStreams is the maximum number of concurrent requests of a connection;
	// DefaultMaxStreams if zero.
	MaxStreams uint32

	// MaxConnectionAge is the time after which a client is asked to reconnect, so that it
	// finds new servers; never if zero. MaxConnectionAgeGrace is the time after it in which
	// calls end; unlimited if zero.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration

	// Ping is the time without data from a client after which the server checks the connection. It
	// closes it after the same time without an answer. If zero, the times are a minute and 20 s.
	Ping time.Duration

	// Services are the names of further services for health checks.
	Services []string

	// StatsHandler receives every call, if not nil.
	StatsHandler stats.Handler

	// Log receives panics; nothing is logged if nil.
	Log *slog.Logger
}

// Bounds of a ServerConfig and of every connection.
const (
	DefaultMaxStreams = 1000

	handshake  = 10 * time.Second // of TLS and HTTP/2
	idlePing   = time.Minute      // time without traffic before a keepalive ping
	pingAnswer = 20 * time.Second
	leastPing  = 10 * time.Second // minimum time between two pings of a client
	maxHeader  = 64 << 10         // bytes

	// Workers keep the stacks that requests need: a new goroutine for each one grows its stack
	// several times, a tenth of the CPU time. Requests beyond the workers have one nevertheless.
	// With many more workers, the stacks would not stay in the cache.
	workersPerCore = 32
)

// A GRPCServer is a gRPC server with health and reflection services.
type GRPCServer struct {
	*grpc.Server
	health   *health.Server
	services []string
	drain    context.CancelFunc // ends health watches
}

// services returns the service names of health checks. The second one is that of
// envoyproxy/ratelimit.
func services() []string {
	return []string{"", "ratelimit", pb.RateLimitService_ServiceDesc.ServiceName}
}

// NewServer returns a gRPC server for [Server.Register], with status SERVING.
func NewServer(c ServerConfig) *GRPCServer {
	if c.MaxRecv == 0 {
		c.MaxRecv = MaxMessage
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	draining, drain := context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(c.MaxRecv),
		grpc.MaxConcurrentStreams(c.MaxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: c.MaxConnectionAge, MaxConnectionAgeGrace: c.MaxConnectionAgeGrace, Time: cmp.Or(c.Ping, idlePing), Timeout: cmp.Or(c.Ping, pingAnswer),
		}),
		grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(uint32(workersPerCore * runtime.GOMAXPROCS(0))),
		grpc.UnaryInterceptor(recovering(c.Log)),
		grpc.StreamInterceptor(endStreams(draining)),
	}
	if c.StatsHandler != nil {
		options = append(options, grpc.StatsHandler(c.StatsHandler))
	}
	if c.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.TLS)))
	}
	g := &GRPCServer{grpc.NewServer(options...), health.NewServer(), append(services(), c.Services...), drain}
	healthpb.RegisterHealthServer(g.Server, g.health)
	reflection.Register(g.Server)
	g.SetServing(true)
	return g
}

// SetServing sets the status of health checks.
func (g *GRPCServer) SetServing(yes bool) {
	to := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		to = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range g.services {
		g.health.SetServingStatus(name, to)
	}
}

// Shutdown sets the status NOT_SERVING, stops accepting connections and waits for calls
// in flight. When ctx ends, it cancels them and returns an error. It may be called twice.
func (g *GRPCServer) Shutdown(ctx context.Context) error {
	g.health.Shutdown()
	g.drain()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		g.Stop()
		<-ended
		return ctx.Err()
	}
}

// recovering turns a panic into an error of its call, as net/http does.
func recovering(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.LogAttrs(ctx, slog.LevelError, "panic in a call", slog.String("method", info.FullMethod), slog.Any("panic", p))
				answer, err = nil, status.Error(codes.Internal, "rls: internal error")
			}
		}()
		return next(ctx, r)
	}
}

// endStreams cancels streams when ctx ends. A health watch would otherwise never end, and
// neither would a graceful stop.
func endStreams(ctx context.Context) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		its, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return next(service, ending{stream, its})
	}
}

// ending is a stream with a context of its own.
type ending struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ending) Context() context.Context { return e.ctx }
