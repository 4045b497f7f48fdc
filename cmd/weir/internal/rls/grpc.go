package rls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
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

// ServerConfig describes a gRPC server. Its zero value works.
type ServerConfig struct {
	// GetCertificate is asked for the certificate of every connection; plain text if
	// nil.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// ClientCAs are the authorities one of which must have signed the certificate of a
	// client; clients need none if nil. It needs GetCertificate.
	ClientCAs *x509.CertPool

	// MaxRecv is the largest message in bytes; MaxMessage if zero.
	MaxRecv int

	// MaxStreams is how many requests a connection may have at a time; DefaultMaxStreams
	// if zero.
	MaxStreams uint32

	// MaxConnectionAge is after how long a client is asked to connect anew, so that it
	// finds new servers; never if zero.
	MaxConnectionAge time.Duration

	// StatsHandler is told of every call, if not nil.
	StatsHandler stats.Handler

	// Log is where a panic is reported; nowhere if nil.
	Log *slog.Logger
}

// Bounds of a ServerConfig and of every connection.
const (
	DefaultMaxStreams = 1000

	handshake  = 10 * time.Second // for TLS and HTTP/2
	idlePing   = time.Minute      // without traffic, after which a client is asked whether it lives
	pingAnswer = 20 * time.Second
	leastPing  = 10 * time.Second // between a client's questions whether the server lives
	maxHeader  = 64 << 10         // bytes
)

// A GRPCServer is a gRPC server with health and reflection.
type GRPCServer struct {
	*grpc.Server
	health *health.Server
	drain  context.CancelFunc // ends the streams that only watch
}

// services are the names under which a client may ask for the health of the door. The
// second is the one that envoyproxy/ratelimit has.
func services() []string {
	return []string{"", "ratelimit", pb.RateLimitService_ServiceDesc.ServiceName}
}

// NewServer makes a gRPC server for [Server.Register]. It says that it is healthy.
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
			MaxConnectionAge: c.MaxConnectionAge, Time: idlePing, Timeout: pingAnswer,
		}),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(recovering(c.Log)),
		grpc.StreamInterceptor(endStreams(draining)),
	}
	if c.StatsHandler != nil {
		options = append(options, grpc.StatsHandler(c.StatsHandler))
	}
	if c.GetCertificate != nil {
		t := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.GetCertificate}
		if c.ClientCAs != nil {
			t.ClientCAs, t.ClientAuth = c.ClientCAs, tls.RequireAndVerifyClientCert
		}
		options = append(options, grpc.Creds(credentials.NewTLS(t)))
	}
	g := &GRPCServer{grpc.NewServer(options...), health.NewServer(), drain}
	healthpb.RegisterHealthServer(g.Server, g.health)
	reflection.Register(g.Server)
	g.SetServing(true)
	return g
}

// SetServing says to who asks for the health of the server whether it is to be used.
func (g *GRPCServer) SetServing(yes bool) {
	to := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		to = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range services() {
		g.health.SetServingStatus(name, to)
	}
}

// Shutdown says that the server is not to be used, accepts nothing more, and waits for
// the calls under way until ctx ends, when it cuts them off. It may be called twice.
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

// recovering makes a panic an error of its call, as net/http does.
func recovering(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.LogAttrs(ctx, slog.LevelError, "a call panicked", slog.String("method", info.FullMethod), slog.Any("panic", p))
				answer, err = nil, status.Error(codes.Internal, "rls: internal error")
			}
		}()
		return next(ctx, r)
	}
}

// until ends streams when ctx ends. What watches the health would otherwise go on for
// ever, and a graceful stop with it.
func endStreams(ctx context.Context) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		its, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return next(service, ending{stream, its})
	}
}

// An ending stream has another context.
type ending struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ending) Context() context.Context { return e.ctx }
