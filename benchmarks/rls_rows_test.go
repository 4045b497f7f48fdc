package benchmarks

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/floodweir/weir/benchmarks/compare"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

const (
	unaryMethod      = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	streamMethod     = "/weir.ratelimit.v1.RateLimitStream/ShouldRateLimit"
	gubernatorMethod = "/pb.gubernator.V1/GetRateLimits"
)

const rlsLimits = `domain: bench
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 4000000000 } }
  - { key: site, rate_limit: { unit: day, requests_per_unit: 4000000000 } }
`

var serverAll = []compare.Column{
	{Name: "server", Head: "server and Redis CPU µs", Ratio: true},
	{Name: "redis", Head: "Redis CPU µs", Ratio: true},
	{Name: "wall", Head: "wall µs", Ratio: true},
	{Name: "p99", Head: "p99 µs"},
}

// rlsRows call Envoy's rate limit service with 64 callers on one connection. The client sends
// bytes that it encoded before, so it costs the same for all.
func rlsRows() []compare.Row {
	const decision = "; per descriptor, 64 callers"
	unary := rlsContender("weir", weirRLS("memory"), unaryMethod, 1)
	return []compare.Row{
		{
			Name: "rls/memory", Title: "Envoy's rate limit service in memory, unary" + decision, Base: "weir", Columns: serverAll,
			Goals:      []compare.Goal{{Contender: "bare grpc-go", Column: "wall", Least: 0.9}},
			Contenders: []compare.Contender{unary, rlsContender("bare grpc-go", bareGRPC, unaryMethod, 1), rlsContender("gubernator", startGubernator, gubernatorMethod, 1)},
		},
		{
			Name: "rls/batch", Title: "the same with 128 descriptors" + decision, Base: "weir, 128", Columns: serverAll,
			Goals: []compare.Goal{{Contender: "weir", Column: "wall", Least: 20}},
			Contenders: []compare.Contender{
				rlsContender("weir, 128", weirRLS("memory"), unaryMethod, 128), unary,
				rlsContender("bare grpc-go, 128", bareGRPC, unaryMethod, 128), rlsContender("gubernator, 128", startGubernator, gubernatorMethod, 128),
			},
		},
		{
			Name: "rls/stream", Title: "Weir's stream in memory" + decision, Base: "weir, stream", Columns: serverAll,
			Goals:      []compare.Goal{{Contender: "weir", Column: "wall", Least: 3.5}},
			Contenders: []compare.Contender{rlsContender("weir, stream", weirRLS("memory"), streamMethod, 1), unary},
		},
		{
			Name: "rls/redis", Title: "Envoy's rate limit service on Redis, one descriptor" + decision, Base: "weir", Columns: serverAll,
			Goals:      []compare.Goal{{Contender: "envoyproxy/ratelimit", Column: "server", Least: 2}},
			Contenders: []compare.Contender{rlsContender("weir", weirRLS("redis"), unaryMethod, 1), rlsContender("envoyproxy/ratelimit", envoyRatelimit, unaryMethod, 1)},
		},
		{
			Name: "rls/redis-two", Title: "the same with two limits; per request", Base: "weir", Columns: serverAll,
			Goals:      []compare.Goal{{Column: "redis", Most: 10}},
			Contenders: []compare.Contender{rlsContender("weir", weirRLS("redis"), unaryMethod, 2), rlsContender("envoyproxy/ratelimit", envoyRatelimit, unaryMethod, 2)},
		},
	}
}

// An opened server has the processes that work for it. Redis may be nil.
type opened struct {
	server
	redis *redistest.Server
}

// rlsContender asks for a number of descriptors per request: 1 and 128 of the first key, 2 of
// different ones, which count as one request.
func rlsContender(name string, open func(testing.TB) opened, method string, descriptors int) compare.Contender {
	return compare.Contender{Name: name, Open: func(t testing.TB) compare.Measure {
		s := open(t)
		per := descriptors
		if per == 2 {
			per = 1
		}
		calls := rlsCalls(t, s.addr, method, descriptors)
		run := func(t testing.TB, d time.Duration) compare.Sample {
			cpu, redis := used(t, s.pid), 0.0
			if s.redis != nil {
				redis = used(t, s.redis.PID())
			}
			spent, took := callFor(t, d, calls)
			n := float64(len(spent) * per)
			sample := compare.Sample{"wall": float64(took) / n / 1e3, "p99": float64(spent[len(spent)*99/100]) / 1e3, "server": (used(t, s.pid) - cpu) / n / 1e3}
			if s.redis != nil {
				sample["redis"] = (used(t, s.redis.PID()) - redis) / n / 1e3
				sample["server"] += sample["redis"]
			}
			return sample
		}
		run(t, 100*time.Millisecond)
		return run
	}}
}

// callFor calls each function in a goroutine for about d, and returns the sorted times of calls.
func callFor(t testing.TB, d time.Duration, calls []func(n int) error) ([]time.Duration, time.Duration) {
	t.Helper()
	spent := make([][]time.Duration, len(calls))
	var failed atomic.Pointer[error]
	var stop atomic.Bool
	began := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	var wait sync.WaitGroup
	for i, call := range calls {
		wait.Go(func() {
			for n := i; !stop.Load(); n += len(calls) {
				start := time.Now()
				if err := call(n); err != nil {
					failed.Store(&err)
					return
				}
				spent[i] = append(spent[i], time.Since(start))
			}
		})
	}
	wait.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	all := slices.Concat(spent...)
	slices.Sort(all)
	return all, took
}

// raw is a codec of messages that are encoded already.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	p := v.(*[]byte)
	*p = append((*p)[:0], data...)
	return nil
}

// rlsCalls returns a function for each of 64 callers.
func rlsCalls(t testing.TB, addr, method string, descriptors int) (calls []func(n int) error) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	requests := make([][]byte, 1000)
	for i := range requests {
		if method == gubernatorMethod {
			requests[i] = gubernatorRequest(i, descriptors)
		} else {
			requests[i] = rlsRequest(t, i, descriptors)
		}
	}
	check := func(answer []byte) error {
		if len(answer) < 2 || method != gubernatorMethod && (answer[0] != 1<<3 || answer[1] != 1) {
			return fmt.Errorf("%s: got % x, want OK", method, answer[:min(16, len(answer))])
		}
		return nil
	}
	for range 64 {
		answer := []byte{}
		if method != streamMethod {
			calls = append(calls, func(n int) error {
				if err := conn.Invoke(context.Background(), method, &requests[n*7919%len(requests)], &answer); err != nil {
					return err
				}
				return check(answer)
			})
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, func(n int) error {
			if err := stream.SendMsg(&requests[n*7919%len(requests)]); err != nil {
				return err
			}
			if err := stream.RecvMsg(&answer); err != nil {
				return err
			}
			return check(answer)
		})
	}
	return calls
}

func rlsRequest(t testing.TB, i, descriptors int) []byte {
	t.Helper()
	r := &rlspb.RateLimitRequest{Domain: "bench"}
	for d := range descriptors {
		key := "user"
		if descriptors == 2 && d == 1 {
			key = "site"
		}
		r.Descriptors = append(r.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: key, Value: fmt.Sprintf("user-%08d", i*descriptors+d)}}})
	}
	text, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// gubernatorRequest encodes a GetRateLimitsReq: name, unique key, hits, limit and duration.
func gubernatorRequest(i, limits int) (all []byte) {
	bytesField := func(b []byte, number byte, value []byte) []byte {
		return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(value))), value...)
	}
	for d := range limits {
		one := bytesField(nil, 1, []byte("bench"))
		one = bytesField(one, 2, fmt.Appendf(nil, "user-%08d", i*limits+d))
		one = binary.AppendUvarint(append(one, 3<<3), 1)
		one = binary.AppendUvarint(append(one, 4<<3), 4_000_000_000)
		one = binary.AppendUvarint(append(one, 5<<3), 24*3600*1000)
		all = bytesField(all, 1, one)
	}
	return all
}

// rlsConfig writes the limits as envoyproxy/ratelimit reads them, and returns the root and the
// directory of the file.
func rlsConfig(t testing.TB) (root, dir string) {
	t.Helper()
	root = t.TempDir()
	dir = filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(rlsLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, dir
}

func weirRLS(store string) func(testing.TB) opened {
	return func(t testing.TB) (o opened) {
		if store == "redis" {
			o.redis = redistest.Start(t)
			store = "redis://" + o.redis.Addr
		}
		_, dir := rlsConfig(t)
		o.server = serveWeir(t, "grpc", "store: memory\n", "--store", store, "--grpc-config", dir)
		return o
	}
}

func bareGRPC(t testing.TB) opened { return opened{server: startSmall(t, "grpc", "")} }

// envoyRatelimit runs without statistics, which it logs if there is no statsd.
func envoyRatelimit(t testing.TB) opened {
	redis, addr := redistest.Start(t), porttest.Address(t)
	root, _ := rlsConfig(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(serverPeers[0].build(t))
	cmd.Env = append(os.Environ(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "GRPC_HOST=127.0.0.1", "GRPC_PORT="+port,
		"HOST=127.0.0.1", fmt.Sprint("PORT=", porttest.Free(t)), "DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", porttest.Free(t)),
		"USE_STATSD=false", "DISABLE_STATS=true", "BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "LOG_LEVEL=error")
	return opened{startProgram(t, addr, cmd), redis}
}

func startGubernator(t testing.TB) opened {
	addr, member := porttest.Address(t), porttest.Address(t)
	cmd := exec.Command(serverPeers[1].build(t), "-config", os.DevNull) // this version requires one
	cmd.Env = append(os.Environ(), "GUBER_GRPC_ADDRESS="+addr, "GUBER_HTTP_ADDRESS="+porttest.Address(t), "GUBER_ADVERTISE_ADDRESS="+addr,
		"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_MEMBERLIST_ADDRESS="+member, "GUBER_MEMBERLIST_ADVERTISE_ADDRESS="+member, "GUBER_MEMBERLIST_KNOWN_NODES="+member, "GUBER_LOG_LEVEL=error", "OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none")
	return opened{server: startProgram(t, addr, cmd)}
}
