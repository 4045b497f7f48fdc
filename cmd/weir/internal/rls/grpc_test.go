package rls_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return authority{c, key}
}

func (a authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a authority) sign(t *testing.T, usage x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "weir"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTLS connects to a server with TLS, and to one that requires client certificates,
// with valid and invalid certificates.
func TestTLS(t *testing.T) {
	servers, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	cert := servers.sign(t, x509.ExtKeyUsageServerAuth)
	s := newServer(t, rls.Config{})
	_, open := serve(t, s, rls.ServerConfig{TLS: &tls.Config{Certificates: []tls.Certificate{*cert}}})
	_, mutual := serve(t, s, rls.ServerConfig{TLS: &tls.Config{Certificates: []tls.Certificate{*cert}, ClientCAs: clients.pool(), ClientAuth: tls.RequireAndVerifyClientCert}})
	with := func(c *tls.Config) credentials.TransportCredentials {
		c.RootCAs = cmpPool(c.RootCAs, servers.pool())
		return credentials.NewTLS(c)
	}
	for _, test := range []struct {
		name, addr string
		creds      credentials.TransportCredentials
		want       codes.Code
	}{
		{"TLS", open, with(&tls.Config{}), codes.OK},
		{"TLS, an authority that is not trusted", open, with(&tls.Config{RootCAs: others.pool()}), codes.Unavailable},
		{"TLS 1.1", open, with(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}), codes.Unavailable},
		{"plain text where TLS is wanted", open, insecure.NewCredentials(), codes.Unavailable},
		{"mTLS", mutual, with(&tls.Config{Certificates: []tls.Certificate{*clients.sign(t, x509.ExtKeyUsageClientAuth)}}), codes.OK},
		{"mTLS without a certificate", mutual, with(&tls.Config{}), codes.Unavailable},
		{"mTLS, signed by another", mutual, with(&tls.Config{Certificates: []tls.Certificate{*others.sign(t, x509.ExtKeyUsageClientAuth)}}), codes.Unavailable},
		{"mTLS, signed by the server's", mutual, with(&tls.Config{Certificates: []tls.Certificate{*servers.sign(t, x509.ExtKeyUsageClientAuth)}}), codes.Unavailable},
		{"mTLS, a server's certificate", mutual, with(&tls.Config{Certificates: []tls.Certificate{*clients.sign(t, x509.ExtKeyUsageServerAuth)}}), codes.Unavailable},
	} {
		conn := dial(t, test.addr, grpc.WithTransportCredentials(test.creds))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, parseRequest(t, "d", "user=a"))
		cancel()
		if got := status.Code(err); got != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func cmpPool(a, b *x509.CertPool) *x509.CertPool {
	if a != nil {
		return a
	}
	return b
}

// TestHealth checks health as a load balancer does until the server ends: a watch does
// not delay Shutdown, and no goroutine is left.
func TestHealth(t *testing.T) {
	g, addr := serve(t, newServer(t, rls.Config{}), rls.ServerConfig{})
	client := healthpb.NewHealthClient(dial(t, addr))
	check := func(service string) string {
		r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return r.GetStatus().String()
	}
	names := []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"}
	for _, name := range names {
		if got := check(name); got != "SERVING" {
			t.Errorf("Check(%q) = %s, want SERVING", name, got)
		}
	}
	if got := check("other"); got != "NotFound" {
		t.Errorf("Check(other) = %s, want NotFound", got)
	}
	watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("Watch = %v, %v", r, err)
	}
	g.SetServing(false)
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("Watch = %v, %v, want NOT_SERVING", r, err)
	}
	if got := check(""); got != "NOT_SERVING" {
		t.Errorf("Check() = %s, want NOT_SERVING", got)
	}
	g.SetServing(true)
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("Watch = %v, %v, want SERVING again", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		if err := g.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v with a watch that goes on", err)
		}
	}
}

// TestReflection sends the requests of a client without the message types.
func TestReflection(t *testing.T) {
	_, addr := serve(t, newServer(t, rls.Config{}), rls.ServerConfig{})
	stream, err := reflectionpb.NewServerReflectionClient(dial(t, addr)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var names []string
	for _, s := range ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services = %v, want %s among them", names, want)
		}
	}
	files := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
	}}).GetFileDescriptorResponse().GetFileDescriptorProto()
	if len(files) == 0 || !strings.Contains(string(files[0]), "ShouldRateLimit") {
		t.Errorf("%d files describe the service", len(files))
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// A counting value is a stats.Handler that reports calls.
type counting struct {
	stats.Handler
	calls chan string
}

func (c counting) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	c.calls <- i.FullMethodName
	return ctx
}
func (counting) HandleRPC(context.Context, stats.RPCStats)                         {}
func (counting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (counting) HandleConn(context.Context, stats.ConnStats)                       {}

// TestMessageBounds sends messages and headers that are too large.
func TestMessageBounds(t *testing.T) {
	h := counting{calls: make(chan string, 10)}
	_, addr := serve(t, newServer(t, rls.Config{}), rls.ServerConfig{StatsHandler: h, MaxConnectionAge: time.Hour})
	client := pb.NewRateLimitServiceClient(dial(t, addr))
	if _, err := client.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user="+strings.Repeat("x", rls.MaxMessage))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of more than 1 MiB: %v, want ResourceExhausted", err)
	}
	if got := <-h.calls; got != pb.RateLimitService_ShouldRateLimit_FullMethodName {
		t.Errorf("the stats handler got %s", got)
	}
	if _, err := client.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a")); err != nil {
		t.Errorf("the connection is gone: %v", err)
	}
}

// TestRetryAfter checks when a client may retry: after a denial by the fields of the response,
// which has no trailer, and after an overload by the trailer. Both are rounded up to seconds.
func TestRetryAfter(t *testing.T) {
	failing := func(err error) rls.Config {
		return rls.Config{Store: fake{doAll: func(context.Context, []weir.Request, []weir.Decision) (bool, error) { return false, err }}}
	}
	for _, test := range []struct {
		name    string
		c       rls.Config
		code    codes.Code
		trailer string
		reset   string // RateLimit-Reset
	}{
		{"a denial", rls.Config{ResponseHeaders: true}, codes.OK, "", "1800"}, // midday() is half past
		{"an overload", failing(&weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond}), codes.Unavailable, "3", ""},
		{"an overload for less than a second", failing(&weir.OverloadError{Reason: "busy", RetryAfter: time.Millisecond}), codes.Unavailable, "1", ""},
		{"a store that is down", failing(weir.ErrUnavailable), codes.Unavailable, "", ""},
	} {
		_, addr := serve(t, newServer(t, test.c), rls.ServerConfig{})
		conn := dial(t, addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		var trailer metadata.MD
		response, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a hits=101"), grpc.Trailer(&trailer))
		if status.Code(err) != test.code || strings.Join(trailer.Get("retry-after"), ",") != test.trailer {
			t.Errorf("%s: %v, trailer %v, want %s and retry-after %q", test.name, err, trailer, test.code, test.trailer)
		}
		var reset string
		for _, h := range response.GetResponseHeadersToAdd() {
			if h.Key == "RateLimit-Reset" {
				reset = h.Value
			}
		}
		if reset != test.reset || err == nil && response.OverallCode != pb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%s: %v, want RateLimit-Reset %q", test.name, response, test.reset)
		}
	}
}
