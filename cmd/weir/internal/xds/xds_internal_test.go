package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/floodweir/weir/cmd/weir/internal/xds/xdstest"
	"github.com/floodweir/weir/internal/certtest"
	"github.com/floodweir/weir/internal/porttest"
)

// patient is a time within which everything in a test happens, or has failed.
const patient = 30 * time.Second

// newPlane starts a control plane at an address.
func newPlane(t *testing.T, addr string, options ...grpc.ServerOption) *xdstest.Plane {
	t.Helper()
	return xdstest.New(t, addr, "node", options...)
}

// set publishes domains, which are also the names of the resources.
func set(t *testing.T, p *xdstest.Plane, version string, domains ...string) {
	t.Helper()
	var all []*pb.RateLimitConfig
	for _, d := range domains {
		all = append(all, &pb.RateLimitConfig{Name: d, Domain: d, Descriptors: []*pb.RateLimitDescriptor{{Key: "k"}}})
	}
	p.Set(t, version, all...)
}

// awaitRequest returns the next request with a version and, if rejected, an error.
func awaitRequest(t *testing.T, p *xdstest.Plane, version string, rejected bool) *discovery.DiscoveryRequest {
	t.Helper()
	for {
		select {
		case r := <-p.Requests:
			if r.GetVersionInfo() == version && (r.GetErrorDetail() != nil) == rejected {
				return r
			}
		case <-time.After(patient):
			t.Fatalf("no request with version %q, rejected %v", version, rejected)
		}
	}
}

// run starts a client whose domain "bad" is invalid. The returned channel receives the names
// of what is in force. The counter has the number of refusals.
func run(t *testing.T, c Config) (k *Client, applied chan string, refusals *atomic.Int64) {
	t.Helper()
	applied, refusals = make(chan string, 100), new(atomic.Int64)
	c.Apply = func(rs []Resource) error {
		names := []string{}
		for _, r := range rs {
			if r.Name == "bad" {
				refusals.Add(1)
				return errors.New("bad: descriptors[0].key: want another one")
			}
			names = append(names, r.Name)
		}
		applied <- strings.Join(names, " ")
		return nil
	}
	c.NodeID, c.ConnectPause, c.FirstPause = "node", 10*time.Millisecond, 10*time.Millisecond
	var err error
	if k, err = New(c); err != nil {
		t.Fatal(err)
	}
	k.reject = growing(10*time.Millisecond, time.Second, 0)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return k, applied, refusals
}

func await(t *testing.T, applied chan string, want string) {
	t.Helper()
	select {
	case got := <-applied:
		if got != want {
			t.Fatalf("in force: %q, want %q", got, want)
		}
	case <-time.After(patient):
		t.Fatalf("nothing applied, want %q", want)
	}
}

// TestUpdates receives valid, invalid and empty sets, and again after a restart of the control
// plane, which then counts from 1.
func TestUpdates(t *testing.T) {
	p := newPlane(t, porttest.Address(t))
	k, applied, refusals := run(t, Config{Server: p.Addr, Headers: map[string]string{"tenant": "a"}, Metadata: map[string]string{"zone": "b"}})
	first := awaitRequest(t, p, "", false)
	if got := first.GetNode().GetMetadata().AsMap()["zone"]; got != "b" || first.GetNode().GetId() != "node" || first.GetTypeUrl() != typeURL {
		t.Errorf("first request %v", first)
	}
	if got := (<-p.Streams).Get("tenant"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("header tenant = %q", got)
	}
	select {
	case <-k.First():
		t.Error("First is closed before a response")
	default:
	}
	set(t, p, "1", "two", "one")
	await(t, applied, "one two")
	awaitRequest(t, p, "1", false)
	<-k.First()

	set(t, p, "2", "bad")
	refused := awaitRequest(t, p, "1", true)
	if got := refused.GetErrorDetail().GetMessage(); got != "bad: descriptors[0].key: want another one" {
		t.Errorf("error of the rejection %q", got)
	}
	awaitRequest(t, p, "1", true) // the control plane sends it again
	if n := refusals.Load(); n != 1 {
		t.Errorf("the set was refused %d times, want once", n)
	}
	set(t, p, "3", "three")
	await(t, applied, "three")
	awaitRequest(t, p, "3", false)
	set(t, p, "4")
	await(t, applied, "")

	p.Stop()
	again := newPlane(t, p.Addr)
	set(t, again, "1", "four")
	await(t, applied, "four")
	awaitRequest(t, again, "", false)
	awaitRequest(t, again, "1", false)
}

// TestEncrypted connects with certificates on both sides, and a server name.
func TestEncrypted(t *testing.T) {
	own, _ := certtest.New(t)
	client, clients := certtest.New(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	certtest.Write(t, own, at("ca.crt"), at("ca.key"))
	certtest.Write(t, client, at("tls.crt"), at("tls.key"))
	p := newPlane(t, porttest.Address(t), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{*own}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	set(t, p, "1", "one")
	_, port, _ := net.SplitHostPort(p.Addr)
	_, applied, _ := run(t, Config{Server: "localhost:" + port, TLS: &TLS{CertFile: at("tls.crt"), KeyFile: at("tls.key"), CAFile: at("ca.crt"), ServerName: "127.0.0.1"}})
	await(t, applied, "one")
	for _, wrong := range []TLS{
		{CertFile: at("tls.crt"), KeyFile: at("tls.key"), CAFile: at("tls.crt"), ServerName: "127.0.0.1"},
		{CertFile: at("tls.crt"), KeyFile: at("tls.key"), CAFile: at("ca.crt"), ServerName: "other"},
		{CAFile: at("ca.crt"), ServerName: "127.0.0.1"},
		{CertFile: at("none"), KeyFile: at("none")},
		{CAFile: at("tls.key")},
	} {
		k, err := New(Config{Server: p.Addr, TLS: &wrong, NodeID: "node", Apply: func([]Resource) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if received, err := k.stream(t.Context()); received || err == nil {
			t.Errorf("%+v: received %v, %v, want an error", wrong, received, err)
		}
	}
}

// TestLargeResponse checks the maximum size of a response.
func TestLargeResponse(t *testing.T) {
	p := newPlane(t, porttest.Address(t))
	long := strings.Repeat("x", 5<<20)
	set(t, p, "1", long)
	k, err := New(Config{Server: p.Addr, NodeID: "node", Apply: func([]Resource) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.stream(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("stream = %v, want an error about the size", err)
	}
	_, applied, _ := run(t, Config{Server: p.Addr, MaxMessage: 32 << 20})
	await(t, applied, long)
}

// TestPauses checks the pauses before streams and before repeated rejections.
func TestPauses(t *testing.T) {
	k, err := New(Config{Server: "x", FirstPause: time.Second, LastPause: 3 * time.Second, ConnectPause: time.Minute, Apply: func([]Resource) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	pauses := growing(k.c.FirstPause, k.c.LastPause, 0)
	got := []time.Duration{k.pause(pauses)}
	close(k.first)
	for range 3 {
		got = append(got, k.pause(pauses))
	}
	if want := []time.Duration{time.Minute, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i, want := range []bool{true, false} {
		if got := k.delay(ended, "1"); got != want {
			t.Errorf("rejection %d of a version without a wait: %v, want %v", i, got, want)
		}
	}
	if !k.delay(ended, "2") {
		t.Error("the first rejection of another version waits")
	}
	for _, c := range []Config{{Server: "x"}, {Apply: func([]Resource) error { return nil }}} {
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) = nil, want an error", c)
		}
	}
}

// TestDecode checks the JSON of every field.
func TestDecode(t *testing.T) {
	meta, err := structpb.NewStruct(map[string]any{"tier": "gold"})
	if err != nil {
		t.Fatal(err)
	}
	one, err := anypb.New(&pb.RateLimitConfig{Name: "name", Domain: "d", Descriptors: []*pb.RateLimitDescriptor{{
		Key: "k", Value: "v", ShadowMode: true, QuotaMode: true, DetailedMetric: true, Metadata: meta,
		RateLimit:   &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_WEEK, RequestsPerUnit: 0, Name: "n", Replaces: []*pb.RateLimitReplace{{Name: "m"}}},
		Descriptors: []*pb.RateLimitDescriptor{{Key: "free", RateLimit: &pb.RateLimitPolicy{Unlimited: true}}, {Key: "none"}, {Key: "unknown", RateLimit: &pb.RateLimitPolicy{}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode([]*anypb.Any{one})
	want := `{"domain":"d","descriptors":[{"key":"k","value":"v","rate_limit":{"unit":"week","requests_per_unit":0,"name":"n","replaces":[{"name":"m"}]},` +
		`"descriptors":[{"key":"free","rate_limit":{"unlimited":true}},{"key":"none"},{"key":"unknown","rate_limit":{"unit":"unknown","requests_per_unit":0}}],` +
		`"shadow_mode":true,"quota_mode":true,"detailed_metric":true,"metadata":{"tier":"gold"}}]}`
	if err != nil || len(got) != 1 || got[0].Name != "name" || string(got[0].Text) != want {
		t.Errorf("decode = %s, %v\nwant %s", fmt.Sprint(got), err, want)
	}
	if _, err := decode([]*anypb.Any{{TypeUrl: typeURL, Value: []byte{0xff}}}); err == nil {
		t.Error("decode of half a message = nil, want an error")
	}
}
