package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func start(tb testing.TB, c telemetry.Config) *telemetry.Telemetry {
	tb.Helper()
	t, err := telemetry.Start(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { t.Shutdown(context.Background()) })
	return t
}

func newPolicy(tb testing.TB, mode policy.Mode) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: "api", Mode: mode, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestOff checks that off, everything is as it was.
func TestOff(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for name, getenv := range map[string]func(string) string{
		"nothing is set": env(),
		"disabled":       env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_SDK_DISABLED", "TRUE"),
		"disabled, and the rest is wrong": env("OTEL_EXPORTER_OTLP_ENDPOINT", ":", "OTEL_SDK_DISABLED", "true",
			"OTEL_TRACES_SAMPLER", "x"),
		"wrong, and sent nowhere": env("OTEL_TRACES_SAMPLER", "x", "OTEL_PROPAGATORS", "x", "OTEL_TRACES_EXPORTER", "x"),
		"none":                    env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none"),
		"metrics alone":           env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1"),
	} {
		c := telemetry.Config{Getenv: getenv, Gatherer: m.Gatherer()}
		if name == "metrics alone" {
			c.Gatherer = nil // which there are none of
		}
		off := start(t, c)
		for _, off := range []*telemetry.Telemetry{off, nil} {
			handler := http.NewServeMux()
			if got := off.Handler("gateway", handler); got != http.Handler(handler) {
				t.Errorf("%s: Handler = %T", name, got)
			}
			transport := &http.Transport{}
			if got := off.Transport(transport); got != http.RoundTripper(transport) {
				t.Errorf("%s: Transport = %T", name, got)
			}
			if got := off.GRPC(); got != nil {
				t.Errorf("%s: GRPC = %T", name, got)
			}
			e := enforce.Event{Policy: newPolicy(t, policy.Enforce), Outcome: enforce.Denied}
			if n := testing.AllocsPerRun(100, func() { off.Decision(context.Background(), "gateway", e) }); n != 0 {
				t.Errorf("%s: Decision allocates %v times", name, n)
			}
			if err := errors.Join(off.Shutdown(context.Background()), off.Shutdown(context.Background())); err != nil {
				t.Errorf("%s: Shutdown: %v", name, err)
			}
		}
	}
}

// TestTraces checks that a real collector gets the spans of a request at the interface
// and at the upstream, with the decision and without the client.
func TestTraces(t *testing.T) {
	collector := newReceiver(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,team=a%2Cb")
	before := [2]any{otel.GetTracerProvider(), otel.GetTextMapPropagator()}
	c := start(t, telemetry.Config{Version: "v1.2.3", Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)})

	var parent string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parent = r.Header.Get("Traceparent")
		io.WriteString(w, "hello")
	}))
	defer upstream.Close()
	client := http.Client{Transport: c.Transport(http.DefaultTransport)}
	p, shadow := newPolicy(t, policy.Enforce), newPolicy(t, policy.Shadow)
	door := httptest.NewServer(c.Handler("gateway", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := weir.MustLimit("10/s")
		for _, e := range []enforce.Event{
			{Policy: p, Key: "api|11:203.0.113.7", Outcome: enforce.Denied, Decision: weir.Decision{Limit: limit, RetryAfter: 250 * time.Millisecond}},
			{Policy: shadow, Shadow: true, Key: "api|11:203.0.113.7", Outcome: enforce.Denied, Decision: weir.Decision{Limit: limit, RetryAfter: weir.Never}},
			{Policy: p, Outcome: enforce.FailedOpen, Err: weir.ErrUnavailable, Fault: errors.New("no such key")},
			{Policy: p, Outcome: enforce.Admitted, Decision: weir.Decision{OK: true, Limit: limit, Remaining: 3, Degraded: policy.Local}},
			{},
		} {
			c.Decision(r.Context(), "gateway", e)
		}
		q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, upstream.URL+"/stock?api_key=secret-in-a-query", nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(q)
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(w, res.Body)
		res.Body.Close()
	})))
	defer door.Close()
	q, err := http.NewRequest(http.MethodPost, door.URL+"/buy/"+strings.Repeat("x", 5000)+"?token=secret-in-a-query", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	q.Header.Set("X-Forwarded-For", "203.0.113.7")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(res.Body); string(body) != "hello" {
		t.Errorf("the answer is %q", body)
	}
	res.Body.Close()
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}

	server, up := collector.named("POST"), collector.named("HTTP GET")
	if server == nil || up == nil || len(collector.spans) != 2 || len(collector.bad) > 0 {
		t.Fatalf("the collector has %v, and could not read %v", collector.spans, collector.bad)
	}
	const trace = "CvdlGRbNQ92ESOshHIAxnA==" // the id of the header
	if server["traceId"] != trace || up["traceId"] != trace || up["parentSpanId"] != server["spanId"] {
		t.Errorf("the spans are not of one trace: %v, %v", server, up)
	}
	if !strings.HasPrefix(parent, "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("the upstream got %q", parent)
	}
	got := attributes(server["attributes"])
	if got["weir.interface"] != "gateway" || got["weir.denied_by"] != "api" || got["http.response.status_code"] != "200" || len(got["url.path"]) != 512 {
		t.Errorf("the span says %v", got)
	}
	all := fmt.Sprint(collector.spans)
	for _, never := range []string{"secret-in-a-query", "203.0.113.7", "client.address", "network.peer"} {
		if strings.Contains(all, never) {
			t.Errorf("the spans contain %s: %s", never, all)
		}
	}
	var events []string
	list, _ := server["events"].([]any)
	for _, e := range list {
		e := e.(map[string]any)
		a := attributes(e["attributes"])
		delete(a, "weir.interface")
		events = append(events, fmt.Sprint(e["name"], " ", a))
	}
	want := []string{
		"weir.decision map[weir.limit:10/s burst 10 weir.outcome:denied weir.policy:api weir.remaining:0 weir.retry_after:0.25]",
		"weir.decision map[weir.limit:10/s burst 10 weir.never:true weir.outcome:denied weir.policy:api weir.remaining:0 weir.shadow:true]",
		"weir.decision map[weir.error:store unavailable weir.fault:no such key weir.outcome:failed_open weir.policy:api]",
		"weir.decision map[weir.degraded:local weir.limit:10/s burst 10 weir.outcome:admitted weir.policy:api weir.remaining:3]",
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
	}
	if r := collector.resource; r["service.name"] != "weir" || r["service.version"] != "v1.2.3" || r["team"] != "a,b" || r["telemetry.sdk.language"] != "go" {
		t.Errorf("the resource is %v", r)
	}
	if after := [2]any{otel.GetTracerProvider(), otel.GetTextMapPropagator()}; after != before {
		t.Error("the global providers changed")
	}
}

// TestMetrics checks that metrics are those of the registry, under their names.
func TestMetrics(t *testing.T) {
	collector := newReceiver(t)
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t")
	m := metrics.New(metrics.Config{})
	c := start(t, telemetry.Config{Gatherer: m.Gatherer(), Getenv: env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", collector.url+"/otel/v1/metrics")})
	if c.GRPC() != nil {
		t.Error("got traces without an endpoint")
	}
	m.Observe("gateway", enforce.Event{Policy: newPolicy(t, policy.Enforce), Outcome: enforce.Admitted})
	if _, err := m.Interface("gateway", empty{}).Do(context.Background(), weir.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"weir_decisions_total", "weir_decision_duration_seconds", "weir_build_info", "go_goroutines"} {
		if collector.metrics[name] == nil {
			t.Errorf("the collector has no %s", name)
		}
	}
	if text := fmt.Sprint(collector.metrics["weir_decisions_total"]); !strings.Contains(text, "admitted") || !strings.Contains(text, "isMonotonic:true") {
		t.Errorf("weir_decisions_total is %s", text)
	}
	if collector.resource["service.name"] != "edge" || collector.headers.Get("Authorization") != "Bearer t" || collector.paths["/otel/v1/metrics"] == 0 {
		t.Errorf("resource %v, headers %v, paths %v", collector.resource, collector.headers, collector.paths)
	}
}

type empty struct{}

func (empty) Do(context.Context, weir.Request) (weir.Decision, error) { return weir.Decision{}, nil }

func (empty) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) { return true, nil }

func TestGRPC(t *testing.T) {
	collector := newReceiver(t)
	c := start(t, telemetry.Config{Getenv: env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.url+"/v1/traces")})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.StatsHandler(c.GRPC()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	server.GracefulStop()
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	span := collector.named("grpc.health.v1.Health/Check")
	if span == nil || strings.Contains(fmt.Sprint(span), "peer") || attributes(span["attributes"])["rpc.response.status_code"] != "OK" {
		t.Errorf("the spans are %v", collector.spans)
	}
}

// TestUnreachable checks that a collector that is away, or takes what it gets and never
// answers, costs no request.
func TestUnreachable(t *testing.T) {
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer silent.Close()
	defer close(hold)
	closed := httptest.NewServer(nil)
	closed.Close()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	for name, url := range map[string]string{"silent": silent.URL, "closed": closed.URL} {
		var log bytes.Buffer
		c := start(t, telemetry.Config{Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", url), Gatherer: metrics.New(metrics.Config{}).Gatherer(),
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		h := c.Handler("http", http.NotFoundHandler())
		begin := time.Now()
		const requests = 20_000 // many more than the queue holds
		for range requests {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != http.StatusNotFound {
				t.Fatalf("%s: %d", name, w.Code)
			}
		}
		took := time.Since(begin)
		t.Logf("%s: %v a request", name, took/requests)
		if took > time.Minute {
			t.Errorf("%s: %v for %d requests", name, took, requests)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		c.Shutdown(ctx) // which fails, and has to come back
		cancel()
		if n := strings.Count(log.String(), "\n"); n > 3 { // one at the start, one for each signal
			t.Errorf("%s: %d lines:\n%s", name, n, &log)
		}
	}
}

// TestResponseWriter checks that the writer can still do all that the server's can.
func TestResponseWriter(t *testing.T) {
	collector := newReceiver(t)
	c := start(t, telemetry.Config{Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)})
	server := httptest.NewServer(c.Handler("gateway", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.EnableFullDuplex(), control.Flush()); err != nil {
			t.Error(err)
		}
		conn, _, err := control.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})))
	defer server.Close()
	if res, err := http.Get(server.URL); err == nil {
		res.Body.Close()
	}
}

func BenchmarkHandler(b *testing.B) {
	collector := newReceiver(b)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, getenv := range map[string]func(string) string{
		"off":       env(),
		"unsampled": env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url, "OTEL_TRACES_SAMPLER", "always_off"),
		"sampled":   env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url),
	} {
		c := start(b, telemetry.Config{Getenv: getenv})
		h := c.Handler("gateway", next)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := httptest.NewRecorder()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
