package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
)

// TestSampler checks that who began the trace decides whether it is recorded, unless the
// sampler says otherwise.
func TestSampler(t *testing.T) {
	for _, test := range []struct {
		sampler, arg string
		parent       string // "", "00" or "01"
		want         int    // spans of 100 requests; -1 for some
	}{
		{"", "", "", 100}, {"", "", "00", 0}, {"", "", "01", 100},
		{"always_on", "", "00", 100}, {"always_off", "", "01", 0},
		{"traceidratio", "0", "01", 0}, {"traceidratio", "1", "00", 100}, {"traceidratio", "", "", 100},
		{"parentbased_traceidratio", "0", "01", 100}, {"parentbased_traceidratio", "0.5", "", -1},
		{"parentbased_always_off", "", "", 0}, {"PARENTBASED_ALWAYS_ON", "", "00", 0},
	} {
		collector := newReceiver(t)
		c := start(t, telemetry.Config{Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url,
			"OTEL_TRACES_SAMPLER", test.sampler, "OTEL_TRACES_SAMPLER_ARG", test.arg)})
		h := c.Handler("http", http.NotFoundHandler())
		for range 100 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if test.parent != "" {
				r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"+test.parent)
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		n := len(collector.spans)
		if test.want >= 0 && n != test.want || test.want < 0 && (n == 0 || n == 100) {
			t.Errorf("%+v: %d spans", test, n)
		}
	}
}

func TestRefused(t *testing.T) {
	const to = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, test := range []struct {
		env  []string
		want string
	}{
		{[]string{to, "127.0.0.1:4318"}, to + ` "127.0.0.1:4318": invalid: want http://HOST:PORT`},
		{[]string{to, "grpc://h:4317"}, `want http://HOST:PORT`},
		{[]string{to, "http://"}, `want http://HOST:PORT`},
		{[]string{to, "http://user:pass@h:4318"}, to + ` "xxxxx@h:4318": invalid: want a URL without a user`},
		{[]string{to, "http://u:pass@h:%zz"}, to + ` "xxxxx@h:%zz": invalid`},
		{[]string{to, "http://h:4318?key=pass"}, to + ` "http://h:4318": invalid: want a URL without a user, a query`},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "h"}, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT "h": invalid`},
		{[]string{to, "http://h", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": invalid: want http/protobuf`},
		{[]string{to, "http://h", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"}, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL "http/json"`},
		{[]string{to, "http://h", "OTEL_TRACES_EXPORTER", "zipkin"}, `OTEL_TRACES_EXPORTER "zipkin": invalid: want otlp or none`},
		{[]string{to, "http://h", "OTEL_TRACES_SAMPLER", "sometimes"}, `OTEL_TRACES_SAMPLER "sometimes": invalid: want always_on`},
		{[]string{to, "http://h", "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "1.5"}, `OTEL_TRACES_SAMPLER_ARG "1.5": invalid: want a number from 0 to 1`},
		{[]string{to, "http://h", "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "NaN"}, `OTEL_TRACES_SAMPLER_ARG "NaN": invalid`},
		{[]string{to, "http://h", "OTEL_PROPAGATORS", "b3"}, `OTEL_PROPAGATORS "b3": invalid: want tracecontext`},
	} {
		_, err := telemetry.Start(context.Background(), telemetry.Config{Getenv: env(test.env...)})
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(fmt.Sprint(err), test.want) || strings.Contains(fmt.Sprint(err), "pass") {
			t.Errorf("%v: %v, want %s", test.env, err, test.want)
		}
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no value")
	_, err := telemetry.Start(context.Background(), telemetry.Config{Getenv: env(to, "http://h")})
	if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("resource attributes without a value: %v", err)
	}
}

// TestPaths checks that an endpoint of one signal is taken as it is, and that of all has
// the signal's path.
func TestPaths(t *testing.T) {
	for _, test := range []struct{ name, suffix, want string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "/v1/traces"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "/", "/v1/traces"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "/a/b/", "/a/b/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/x/v1/traces", "/x/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", "/"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/", "/"},
	} {
		collector := newReceiver(t)
		c := start(t, telemetry.Config{Getenv: env(test.name, collector.url+test.suffix)})
		c.Handler("http", http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if len(collector.paths) != 1 || collector.paths[test.want] != 1 {
			t.Errorf("%s=…%s: asked for %v, want %s", test.name, test.suffix, collector.paths, test.want)
		}
	}
}
