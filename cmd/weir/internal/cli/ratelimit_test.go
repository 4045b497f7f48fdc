package cli_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/floodweir/weir/cmd/weir/internal/cli"
	"github.com/floodweir/weir/cmd/weir/internal/xds/xdstest"
	"github.com/floodweir/weir/internal/certtest"
	"github.com/floodweir/weir/internal/porttest"
)

// patient is a time within which everything in a test happens, or has failed.
const patient = 30 * time.Second

// A buffer is a log that a test reads while the program writes it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ratelimit is a running `weir ratelimit`.
type ratelimit struct {
	http, grpc, debug string
	log               *buffer
}

// startRatelimit runs the command with the environment env, on free ports, until the test ends.
func startRatelimit(t *testing.T, env map[string]string) *ratelimit {
	t.Helper()
	r := &ratelimit{log: &buffer{}}
	for name, to := range map[string]*string{"PORT": &r.http, "GRPC_PORT": &r.grpc, "DEBUG_PORT": &r.debug} {
		*to = porttest.Address(t)
		_, port, _ := net.SplitHostPort(*to)
		t.Setenv(name, port)
	}
	for _, name := range []string{"HOST", "GRPC_HOST", "DEBUG_HOST"} {
		t.Setenv(name, "127.0.0.1")
	}
	t.Setenv("WEIR_STORE", "memory")
	for name, value := range env {
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- cli.Run(ctx, []string{"ratelimit"}, strings.NewReader(""), io.Discard, r.log, os.Getenv)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	return r
}

// get returns the status and the body of a URL; 0 without a response.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patient); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// ask asks for one descriptor with entries of the form key=value. It returns OK, OVER_LIMIT or
// the code of an error.
func ask(t *testing.T, conn *grpc.ClientConn, domain string, entries ...string) string {
	t.Helper()
	d := &common.RateLimitDescriptor{}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	r, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{d}},
		grpc.WaitForReady(true))
	if err != nil {
		return status.Code(err).String()
	}
	return r.GetOverallCode().String()
}

func dial(t *testing.T, addr string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// per returns a limit of n per hour for each value of a key.
func per(key string, n uint32) *pb.RateLimitDescriptor {
	return &pb.RateLimitDescriptor{Key: key, RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_HOUR, RequestsPerUnit: n}}
}

func resource(domain string, ds ...*pb.RateLimitDescriptor) *pb.RateLimitConfig {
	return &pb.RateLimitConfig{Name: domain, Domain: domain, Descriptors: ds}
}

// TestEnvoyGateway runs the program with the environment that Envoy Gateway sets, and a control
// plane that requires TLS 1.3 and a client certificate.
func TestEnvoyGateway(t *testing.T) {
	cert, pool := certtest.New(t)
	dir := t.TempDir()
	crt, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certtest.Write(t, cert, crt, key)
	metrics := porttest.Address(t)
	p := xdstest.New(t, porttest.Address(t), "envoy-ratelimit", grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{*cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	r := startRatelimit(t, map[string]string{
		"RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "true", "RUNTIME_WATCH_ROOT": "false",
		"LOG_LEVEL": "info", "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": p.Addr,
		"CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "FORCE_START_WITHOUT_INITIAL_CONFIG": "true",
		"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": crt, "GRPC_SERVER_TLS_KEY": key, "GRPC_SERVER_TLS_CA_CERT": crt,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": crt, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": key, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": crt,
		"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": metrics, "PROMETHEUS_MAPPER_YAML": "/etc/statsd-exporter/conf.yaml", "REDIS_SOCKET_TYPE": "tcp",
		"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true",
	})
	until(t, "the HTTP interface listens, unhealthy", func() bool { code, _ := get(t, "http://"+r.http+"/healthcheck"); return code == 500 })
	conn := dial(t, r.grpc, credentials.NewTLS(&tls.Config{RootCAs: pool}))
	if got := ask(t, conn, "gateway", "user=a"); got != codes.Unavailable.String() {
		t.Errorf("before the first limits: %s, want Unavailable", got)
	}
	health := func() string {
		h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err != nil {
			t.Fatal(err)
		}
		return h.GetStatus().String()
	}
	until(t, "gRPC health is NOT_SERVING", func() bool { return health() == "NOT_SERVING" })

	p.Set(t, "1", resource("gateway", per("user", 2)))
	until(t, "the first limits are in force", func() bool { code, _ := get(t, "http://"+r.http+"/healthcheck"); return code == 200 })
	until(t, "gRPC health is SERVING", func() bool { return health() == "SERVING" })
	for i, want := range []string{"OK", "OK", "OVER_LIMIT"} {
		if got := ask(t, conn, "gateway", "user=a"); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
	stats := func(line string) func() bool {
		return func() bool { _, body := get(t, "http://"+r.debug+"/stats"); return strings.Contains(body, line) }
	}
	p.Set(t, "2", resource("gateway", per("user", 9), per("user", 8)), resource("other", &pb.RateLimitDescriptor{}))
	until(t, "the wrong limits are counted", stats("ratelimit.service.config_load_error: 1\n"))
	if got := ask(t, conn, "gateway", "user=a"); got != "OVER_LIMIT" {
		t.Errorf("after wrong limits: %s, want OVER_LIMIT", got)
	}
	for {
		select {
		case request := <-p.Requests:
			if e := request.GetErrorDetail(); e != nil {
				want := "gateway: descriptors[1]: \"user\": want every key and value once in a list"
				if !strings.HasPrefix(e.GetMessage(), want) || !strings.Contains(e.GetMessage(), "\nother: descriptors[0].key: want the key of an entry, a text") || request.GetVersionInfo() != "1" {
					t.Errorf("rejection %v, want version 1 and %q", request, want)
				}
			} else {
				continue
			}
		case <-time.After(patient):
			t.Fatal("the wrong limits were not rejected")
		}
		break
	}
	p.Set(t, "3", resource("gateway", per("user", 3)), resource("other", per("path", 0)))
	until(t, "the third limits are in force", func() bool { return ask(t, conn, "other", "path=/") == "OVER_LIMIT" })
	for i, want := range []string{"OK", "OVER_LIMIT"} { // 2 of 3 are used
		if got := ask(t, conn, "gateway", "user=a"); got != want {
			t.Errorf("request %d of the third limits: %s, want %s", i+1, got, want)
		}
	}
	if _, body := get(t, "http://"+metrics+"/metrics"); !strings.Contains(body, `ratelimit_service_rate_limit_over_limit{domain="gateway",key1="user"} `) {
		t.Errorf("metrics:\n%s", body)
	}
	p.Set(t, "4")
	until(t, "all limits are removed", func() bool { return ask(t, conn, "gateway", "user=a") == "OK" })
	for _, want := range []string{"GRPC_SERVER_TLS_CA_CERT has no effect", "PROMETHEUS_MAPPER_YAML has no effect"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %q", want)
		}
	}
}

// TestAIGateway runs the program with the environment of AI Gateway: limits in quota mode, for
// which the program waits.
func TestAIGateway(t *testing.T) {
	p := xdstest.New(t, porttest.Address(t), "envoy-ai-gateway-ratelimit")
	r := startRatelimit(t, map[string]string{
		"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": p.Addr, "CONFIG_GRPC_XDS_NODE_ID": "envoy-ai-gateway-ratelimit",
	})
	until(t, "the program waits", func() bool {
		return strings.Contains(r.log.String(), "waiting for the first limits of the control plane")
	})
	if code, _ := get(t, "http://"+r.http+"/healthcheck"); code != 0 {
		t.Errorf("status %d before the first limits, want no listener", code)
	}
	quota := per("model", 1)
	quota.QuotaMode = true
	p.Set(t, "1", resource("ai-gateway-quota", &pb.RateLimitDescriptor{Key: "backend", Descriptors: []*pb.RateLimitDescriptor{quota}}))
	until(t, "the program serves", func() bool { code, _ := get(t, "http://"+r.http+"/healthcheck"); return code == 200 })
	conn := dial(t, r.grpc, insecure.NewCredentials())
	for i, want := range []string{"OK", "OVER_LIMIT"} {
		if got := ask(t, conn, "ai-gateway-quota", "backend=b", "model=m"); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
	if !strings.Contains(r.log.String(), "level=WARN msg=listening interface=http") { // as envoyproxy/ratelimit
		t.Errorf("log = %s, want the addresses at the default level", r.log)
	}
}
