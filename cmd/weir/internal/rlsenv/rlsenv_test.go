package rlsenv

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/xds"
)

// read reads variables of the form NAME=VALUE.
func read(variables ...string) (*config.Config, error) {
	env := map[string]string{}
	for _, one := range variables {
		name, value, _ := strings.Cut(one, "=")
		env[name] = value
	}
	return Read(Source{Getenv: func(name string) string { return env[name] }, Names: slices.Collect(maps.Keys(env))})
}

func mustRead(t *testing.T, variables ...string) *config.Config {
	t.Helper()
	c, err := read(variables...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefaults checks the configuration without variables but REDIS_URL.
func TestDefaults(t *testing.T) {
	c := mustRead(t, "REDIS_URL=redis:6379")
	r := c.RateLimit
	got := []any{
		c.Store, c.HTTP.Listen, c.GRPC.Listen, c.Gateway.Listen, c.RESP.Listen, c.Admin.Listen, c.GRPC.Config, c.GRPC.Anonymous,
		c.Log.Level, c.Log.Format, r.Debug, r.Metrics, r.NearRatio, r.MaxConnectionAge, c.Demo(), len(r.Notes), c.RateLimits(),
	}
	want := []any{
		"redis://redis:6379", "0.0.0.0:8080", "0.0.0.0:8081", "off", "off", "off", "/srv/runtime_data/current/config", true,
		slog.LevelWarn, "text", "127.0.0.1:6070", "", 0.8, 24 * time.Hour, false, 0, true,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestValues checks variables that change a setting.
func TestValues(t *testing.T) {
	cert := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustRead(t, "REDIS_URL=redis:6379", "HOST=127.0.0.1", "PORT=80", "GRPC_HOST=::1", "GRPC_PORT=81", "DEBUG_HOST=0.0.0.0", "DEBUG_PORT=82",
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_APPDIRECTORY=x", "REDIS_TIMEOUT=2m", "LOG_LEVEL=Warning", "LOG_FORMAT=json",
		"SHADOW_MODE=1", "QUOTA_MODE=true", "RESPONSE_DYNAMIC_METADATA=T", "MERGE_DOMAIN_CONFIG=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
		"LIMIT_LIMIT_HEADER=L", "LIMIT_REMAINING_HEADER=R", "LIMIT_RESET_HEADER=S", "NEAR_LIMIT_RATIO=0.5", "CACHE_KEY_PREFIX=p", "USE_PROMETHEUS=true",
		"PROMETHEUS_ADDR=:19001", "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+cert, "GRPC_SERVER_TLS_KEY="+cert, "GRPC_CLIENT_TLS_CACERT="+cert,
		"GRPC_CLIENT_TLS_SAN=envoy", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "WEIR_NODES=3")
	r, g := c.RateLimit, c.GRPC
	got := []any{
		c.HTTP.Listen, g.Listen, r.Debug, g.Config, c.Deadline, c.Log.Level, c.Log.Format, g.Shadow, g.Quota, g.DynamicMetadata, g.MergeDomains,
		g.ResponseHeaders, r.Headers, r.NearRatio, r.KeyPrefix, r.Metrics, g.CertFile, g.KeyFile, g.ClientCAFile, g.ClientName,
		r.NeedsLimits, r.NeedsStore, c.Nodes,
	}
	want := []any{
		"127.0.0.1:80", "[::1]:81", "0.0.0.0:82", "/data/ratelimit/x", time.Minute, slog.LevelWarn, "json", true, true, true, true,
		true, [3]string{"L", "R", "S"}, 0.5, "p", ":19001", cert, cert, cert, "envoy", true, true, 3,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestRedisURL checks the URL of the store, and the errors.
func TestRedisURL(t *testing.T) {
	for _, test := range []struct{ variables, want string }{
		{"REDIS_URL=h:1 REDIS_SOCKET_TYPE=tcp", "redis://h:1"},
		{"REDIS_URL=h:1 REDIS_AUTH=pa@ss/", "redis://:pa@ss%2F@h:1"},
		{"REDIS_URL=h:1 REDIS_AUTH=user:pa:ss", "redis://user:pa:ss@h:1"},
		{"REDIS_URL=redis://u:p@h:1/3", "redis://u:p@h:1/3"},
		{"REDIS_URL=a:1,b:2 REDIS_TYPE=cluster REDIS_TLS=true", "rediss+cluster://a:1,b:2"},
		{"REDIS_URL=main,a:1,b:2 REDIS_TYPE=SENTINEL REDIS_AUTH=p REDIS_SENTINEL_AUTH=u:s", "redis+sentinel://:p@a:1,b:2/main?sentinel_password=s&sentinel_user=u"},
		{"WEIR_STORE=memory", "memory"},
		{"WEIR_STORE=memory REDIS_URL=h:1", "redis://h:1"},
		{"", "REDIS_URL: want HOST:PORT of a Redis, got none (WEIR_STORE=memory counts in this process)"},
		{"REDIS_URL=/var/redis.sock", "REDIS_URL: want HOST:PORT and REDIS_SOCKET_TYPE tcp: Unix sockets are not supported"},
		{"REDIS_URL=h:1 REDIS_SOCKET_TYPE=unix", "REDIS_URL: want HOST:PORT and REDIS_SOCKET_TYPE tcp: Unix sockets are not supported"},
		{"REDIS_URL=h:1 REDIS_TYPE=single REDIS_TLS=true REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true",
			`REDIS_TLS_SKIP_HOSTNAME_VERIFICATION "true": want false, and in REDIS_URL the name of the certificate`},
		{"REDIS_URL=h:1 BACKEND_TYPE=memcache", `BACKEND_TYPE "memcache": want redis`},
		{"REDIS_URL=h:1 GRPC_UDS=/x", `GRPC_UDS "/x": want GRPC_HOST and GRPC_PORT: Unix sockets are not supported`},
		{"REDIS_URL=h:1 PORT=x SHADOW_MODE=maybe", "PORT \"x\": want a port from 0 to 65535\nSHADOW_MODE \"maybe\": want true or false"},
		{"REDIS_URL=h:1 NEAR_LIMIT_RATIO=NaN PROMETHEUS_PATH=x LOG_LEVEL=loud", "LOG_LEVEL \"loud\": want trace or debug or info or warn or warning or error or fatal or panic\n" +
			"NEAR_LIMIT_RATIO \"NaN\": want a number from 0 to 1\nPROMETHEUS_PATH \"x\": want a path such as /metrics"},
	} {
		c, err := read(strings.Fields(test.variables)...)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = c.Store
		}
		if got != test.want {
			t.Errorf("%s: got %s\nwant %s", test.variables, got, test.want)
		}
	}
}

// TestNotes checks which variables are reported as without effect.
func TestNotes(t *testing.T) {
	c := mustRead(t, "REDIS_URL=h:1",
		"REDIS_POOL_SIZE=10", "USE_STATSD=false", "RUNTIME_IGNOREDOTFILES=true", // as without them
		"REDIS_PORT=tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST=10.0.0.1", "REDIS_PORT_6379_TCP_PORT=6379", "PATH=/bin", // of others
		"STATSD_PORT=", "STATSD_HOST=statsd", "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL=x:2", "REDIS_POOLSIZE=3", "GRPC_SERVER_TLS_CA_CERT=/ca",
	)
	var names []string
	for _, note := range c.RateLimit.Notes {
		name, _, _ := strings.Cut(note, " has no effect: ")
		names = append(names, name)
	}
	want := []string{"GRPC_SERVER_TLS_CA_CERT", "REDIS_PERSECOND", "REDIS_PERSECOND_URL", "REDIS_POOLSIZE", "STATSD_HOST"}
	if !slices.Equal(names, want) {
		t.Errorf("notes %q\nwant of %q", c.RateLimit.Notes, want)
	}
}

// TestEveryVariable checks that each variable in testdata/settings.txt is known: those of
// src/settings/settings.go of envoyproxy/ratelimit at commit f2fb157.
func TestEveryVariable(t *testing.T) {
	text, err := os.ReadFile("testdata/settings.txt")
	if err != nil {
		t.Fatal(err)
	}
	var exact, prefixes []string
	for _, v := range new(reader).variables() {
		if prefix, ok := strings.CutSuffix(v.name, "*"); ok {
			prefixes = append(prefixes, prefix)
		}
		exact = append(exact, v.name)
	}
	for _, name := range strings.Fields(string(text)) {
		if !slices.Contains(exact, name) && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			t.Errorf("%s is unknown", name)
		}
	}
}

// TestTelemetry checks the variables of OpenTelemetry.
func TestTelemetry(t *testing.T) {
	off := mustRead(t, "REDIS_URL=h:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318").RateLimit
	if got := off.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); got != "" {
		t.Errorf("endpoint without TRACING_ENABLED = %q", got)
	}
	on := mustRead(t, "REDIS_URL=h:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "TRACING_ENABLED=true", "TRACING_SAMPLING_RATE=0.25", "TRACING_SERVICE_NAME=rl").RateLimit
	got := []string{on.ServiceName}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_METRICS_EXPORTER", "OTHER"} {
		got = append(got, on.Getenv(name))
	}
	if want := []string{"rl", "http://collector:4318", "parentbased_traceidratio", "0.25", "none", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestControlPlane checks the settings of the control plane.
func TestControlPlane(t *testing.T) {
	if x := mustRead(t, "REDIS_URL=h:1", "CONFIG_GRPC_XDS_NODE_ID=n").RateLimit.XDS; x != nil {
		t.Errorf("a control plane without CONFIG_TYPE: %+v", x)
	}
	c := mustRead(t, "REDIS_URL=h:1", "CONFIG_TYPE=grpc_xds_sotw")
	if got, want := *c.RateLimit.XDS, (xds.Config{Server: "localhost:18000", NodeID: "default", Jitter: 0.5}); !reflect.DeepEqual(got, want) || c.GRPC.Config != "" {
		t.Errorf("by default %+v, want %+v", got, want)
	}
	cert := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c = mustRead(t, "REDIS_URL=h:1", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=n", "CONFIG_GRPC_XDS_NODE_METADATA=a=1,b=2", "CONFIG_GRPC_XDS_SERVER_URL=gateway:18001",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x:1,y:2", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=1s", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=2s",
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=3s", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0.1", "XDS_CLIENT_BACKOFF_JITTER=false", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=9",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+cert, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+cert,
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN=gateway", "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	want := xds.Config{
		Server: "gateway:18001", NodeID: "n", Metadata: map[string]string{"a": "1", "b": "2"}, Headers: map[string]string{"x": "1", "y": "2"},
		TLS:        &xds.TLS{CertFile: cert, KeyFile: cert, CAFile: cert, ServerName: "gateway"},
		MaxMessage: 9, ConnectPause: time.Second, FirstPause: 2 * time.Second, LastPause: 3 * time.Second,
	}
	if got := *c.RateLimit.XDS; !reflect.DeepEqual(got, want) || !c.RateLimit.StartWithout {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := read("REDIS_URL=h:1", "CONFIG_GRPC_XDS_NODE_METADATA=a:1"); err == nil || !strings.Contains(err.Error(), "want NAME=VALUE,NAME=VALUE") {
		t.Errorf("metadata with another separator: %v", err)
	}
}
