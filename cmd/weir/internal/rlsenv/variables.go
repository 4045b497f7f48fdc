package rlsenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A variable is one environment variable.
type variable struct {
	name string

	// set uses a value; nil if the variable has no effect. The error says what is accepted.
	set func(value string) error

	// quiet is the value without effect that needs no note, and why the note.
	quiet, why string
}

// variables returns all variables of envoyproxy/ratelimit.
func (r *reader) variables() []variable {
	return slices.Concat(r.listeners(), r.limits(), r.controlPlane(), r.redisVariables(), r.observability(), withoutEffect)
}

func (r *reader) listeners() []variable {
	c := &r.c
	return []variable{
		{name: "HOST", set: text(&r.http.host)},
		{name: "PORT", set: port(&r.http.port)},
		{name: "GRPC_HOST", set: text(&r.grpc.host)},
		{name: "GRPC_PORT", set: port(&r.grpc.port)},
		{name: "DEBUG_HOST", set: text(&r.debug.host)},
		{name: "DEBUG_PORT", set: port(&r.debug.port)},
		{name: "GRPC_UDS", set: refuse("want GRPC_HOST and GRPC_PORT: Unix sockets are not supported")},
		{name: "GRPC_MAX_CONNECTION_AGE", set: duration(&c.MaxConnectionAge)},
		{name: "GRPC_MAX_CONNECTION_AGE_GRACE", set: duration(&c.MaxConnectionAgeGrace)},
		{name: "GRPC_SERVER_USE_TLS", set: boolean(&r.serverTLS)},
		{name: "GRPC_SERVER_TLS_CERT", set: file(&r.cert)},
		{name: "GRPC_SERVER_TLS_KEY", set: file(&r.key)},
		{name: "GRPC_CLIENT_TLS_CACERT", set: file(&r.clientCA)},
		{name: "GRPC_CLIENT_TLS_SAN", set: text(&r.clientName)},
		{name: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", set: boolean(&c.NeedsLimits)},
		{name: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", set: boolean(&c.NeedsStore)},
	}
}

func (r *reader) limits() []variable {
	c := &r.c
	g := &r.file.GRPC
	return []variable{
		{name: "CONFIG_TYPE", set: word(&r.configType, "FILE", xdsType)},
		{name: "RUNTIME_ROOT", set: text(&r.root)},
		{name: "RUNTIME_SUBDIRECTORY", set: text(&r.subdirectory)},
		{name: "RUNTIME_APPDIRECTORY", set: text(&r.appDirectory)},
		{name: "RUNTIME_WATCH_ROOT", set: boolean(new(bool))},     // both are watched
		{name: "RUNTIME_IGNOREDOTFILES", set: boolean(new(bool))}, // they always are
		{name: "MERGE_DOMAIN_CONFIG", set: boolean(&g.MergeDomains)},
		{name: "SHADOW_MODE", set: boolean(&g.Shadow)},
		{name: "QUOTA_MODE", set: boolean(&g.Quota)},
		{name: "RESPONSE_DYNAMIC_METADATA", set: boolean(&g.DynamicMetadata)},
		{name: "LIMIT_RESPONSE_HEADERS_ENABLED", set: boolean(&g.ResponseHeaders)},
		{name: "LIMIT_LIMIT_HEADER", set: text(&c.Headers[0])},
		{name: "LIMIT_REMAINING_HEADER", set: text(&c.Headers[1])},
		{name: "LIMIT_RESET_HEADER", set: text(&c.Headers[2])},
		{name: "NEAR_LIMIT_RATIO", set: ratio(&c.NearRatio)},
		{name: "CACHE_KEY_PREFIX", set: text(&c.KeyPrefix)},
		{name: "BACKEND_TYPE", set: word(new(string), "redis")},
		{name: "FORCE_START_WITHOUT_INITIAL_CONFIG", set: boolean(&c.StartWithout)},
	}
}

func (r *reader) controlPlane() []variable {
	x := &r.xds
	return []variable{
		{name: "CONFIG_GRPC_XDS_NODE_ID", set: text(&x.NodeID)},
		{name: "CONFIG_GRPC_XDS_NODE_METADATA", set: pairs(&x.Metadata, "=")},
		{name: "CONFIG_GRPC_XDS_SERVER_URL", set: text(&x.Server)},
		{name: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", set: duration(&x.ConnectPause)},
		{name: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", set: pairs(&x.Headers, ":")},
		{name: "CONFIG_GRPC_XDS_SERVER_USE_TLS", set: boolean(&r.xdsTLS)},
		{name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", set: file(&r.xdsFiles.CertFile)},
		{name: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", set: file(&r.xdsFiles.KeyFile)},
		{name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", set: file(&r.xdsFiles.CAFile)},
		{name: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", set: text(&r.xdsFiles.ServerName)},
		{name: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", set: duration(&x.FirstPause)},
		{name: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", set: duration(&x.LastPause)},
		{name: "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", set: ratio(&x.Jitter)},
		{name: "XDS_CLIENT_BACKOFF_JITTER", set: boolean(&r.jitter)},
		{name: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", set: size(&x.MaxMessage)},
	}
}

func (r *reader) redisVariables() []variable {
	return []variable{
		{name: "REDIS_URL", set: text(&r.redis.url)},
		{name: "REDIS_TYPE", set: word(&r.redis.kind, "SINGLE", "CLUSTER", "SENTINEL")},
		{name: "REDIS_SOCKET_TYPE", set: word(&r.redis.socket, "tcp", "unix")},
		{name: "REDIS_AUTH", set: text(&r.redis.auth)},
		{name: "REDIS_SENTINEL_AUTH", set: text(&r.redis.sentinelAuth)},
		{name: "REDIS_TIMEOUT", set: duration(&r.timeout)},
		{name: "REDIS_TLS", set: boolean(&r.redis.tls)},
		{name: "REDIS_TLS_CLIENT_CERT", set: file(&r.redis.cert)},
		{name: "REDIS_TLS_CLIENT_KEY", set: file(&r.redis.key)},
		{name: "REDIS_TLS_CACERT", set: file(&r.redis.ca)},
		{name: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", set: wantFalse("want false, and in REDIS_URL the name of the certificate")},
	}
}

func (r *reader) observability() []variable {
	return []variable{
		{name: "LOG_LEVEL", set: word(&r.level, "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic")},
		{name: "LOG_FORMAT", set: word(&r.format, "text", "json")},
		{name: "USE_PROMETHEUS", set: boolean(&r.prometheus)},
		{name: "PROMETHEUS_ADDR", set: text(&r.c.Metrics)},
		{name: "PROMETHEUS_PATH", set: path(&r.c.MetricsPath)},
		{name: "TRACING_ENABLED", set: boolean(&r.tracing)},
		{name: "TRACING_SERVICE_NAME", set: text(&r.c.ServiceName)},
		{name: "TRACING_SAMPLING_RATE", set: ratio(&r.sampling)},
		{name: "TRACING_EXPORTER_PROTOCOL", set: word(new(string), "http")},
	}
}

const (
	oneConnection = "all requests share a pipelined connection"
	secondRedis   = "limits per second are kept in REDIS_URL too"
	statsd        = "metrics are served for Prometheus: USE_PROMETHEUS, and /metrics of DEBUG_PORT"
	resource      = "set OTEL_RESOURCE_ATTRIBUTES"
	noCache       = "denials of a limit are always cached until it can admit again"
	startup       = "the program waits 10 s for Redis, then it exits"
	memcache      = "BACKEND_TYPE memcache is not supported"
)

var withoutEffect = []variable{
	{name: "REDIS_POOL_SIZE", quiet: "10", why: oneConnection},
	{name: "REDIS_POOL_ON_EMPTY_BEHAVIOR", quiet: "WAIT", why: oneConnection},
	{name: "REDIS_PIPELINE_WINDOW", quiet: "0", why: oneConnection},
	{name: "REDIS_PIPELINE_LIMIT", quiet: "0", why: oneConnection},
	{name: "REDIS_CLUSTER_PIPELINE_PARALLELISM", quiet: "1", why: oneConnection},
	{name: "REDIS_STARTUP_INITIAL_INTERVAL", quiet: "1s", why: startup},
	{name: "REDIS_STARTUP_MAX_INTERVAL", quiet: "30s", why: startup},
	{name: "REDIS_STARTUP_MAX_ELAPSED_TIME", quiet: "10s", why: startup},
	{name: "REDIS_PERSECOND", quiet: "false", why: secondRedis},
	{name: "REDIS_PERSECOND_*", why: secondRedis},
	{name: "MEMCACHE_*", why: memcache},
	{name: "LOCAL_CACHE_SIZE_IN_BYTES", quiet: "0", why: noCache},
	{name: "EXPIRATION_JITTER_MAX_SECONDS", quiet: "300", why: "keys expire when their limit is unused again"},
	{name: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", quiet: "true", why: "hits over a limit do not count, except with count: all"},
	{name: "USE_STATSD", quiet: "false", why: statsd},
	{name: "STATSD_*", why: statsd},
	{name: "STATS_FLUSH_INTERVAL", why: statsd},
	{name: "EXTRA_TAGS", why: statsd},
	{name: "DISABLE_STATS", quiet: "false", why: "metrics cost nothing until they are read"},
	{name: "USE_DOG_STATSD", quiet: "false", why: statsd},
	{name: "USE_DOG_STATSD_MOGRIFIERS", why: statsd},
	{name: "DOG_STATSD_MOGRIFIER_*", why: statsd},
	{name: "PROMETHEUS_MAPPER_YAML", why: "metrics have the names of the default mapper"},
	{name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", quiet: "false", why: "times are in seconds"},
	{name: "TRACING_SERVICE_NAMESPACE", why: resource},
	{name: "TRACING_SERVICE_INSTANCE_ID", why: resource},
	{name: "GRPC_SERVER_TLS_CA_CERT", why: "envoyproxy/ratelimit does not read it either; GRPC_CLIENT_TLS_CACERT verifies clients"},
}

// ownPrefixes begin names that only envoyproxy/ratelimit uses. Others that begin so are
// misspelled.
var ownPrefixes = []string{
	"CONFIG_GRPC_XDS_", "GRPC_SERVER_", "GRPC_CLIENT_TLS_", "GRPC_MAX_CONNECTION_", "LIMIT_", "PROMETHEUS_", "REDIS_", "RUNTIME_", "TRACING_", "XDS_CLIENT_",
}

// unknown reports whether a variable looks like one of envoyproxy/ratelimit. Kubernetes
// sets variables for each service of a namespace, such as REDIS_PORT and
// REDIS_SERVICE_HOST.
func unknown(name, value string) bool {
	if strings.Contains(name, "_SERVICE_") || strings.Contains(value, "://") || strings.Contains(name, "_PORT_") {
		return false
	}
	return slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func text(to *string) func(string) error {
	return func(v string) error { *to = v; return nil }
}

// path is text for the path of a URL.
func path(to *string) func(string) error {
	return func(v string) error {
		if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "{} ") {
			return fmt.Errorf("want a path such as /metrics")
		}
		*to = v
		return nil
	}
}

// file is text for the name of a file that can be read.
func file(to *string) func(string) error {
	return func(v string) error {
		*to = v
		f, err := os.Open(v)
		if err != nil {
			return fmt.Errorf("want a file that can be read: %w", err)
		}
		return f.Close()
	}
}

func boolean(to *bool) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("want true or false")
		}
		return nil
	}
}

// wantFalse refuses what the program does not support.
func wantFalse(want string) func(string) error {
	return func(v string) error {
		if set, err := strconv.ParseBool(v); err != nil || set {
			return errors.New(want)
		}
		return nil
	}
}

func refuse(want string) func(string) error {
	return func(string) error { return errors.New(want) }
}

func port(to *string) func(string) error {
	return func(v string) error {
		if _, err := strconv.ParseUint(v, 10, 16); err != nil {
			return fmt.Errorf("want a port from 0 to 65535")
		}
		*to = v
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil || *to < 0 {
			return fmt.Errorf("want a duration of 0 or more such as 10s")
		}
		return nil
	}
}

func ratio(to *float64) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.ParseFloat(v, 64); err != nil || !(*to >= 0 && *to <= 1) {
			return fmt.Errorf("want a number from 0 to 1")
		}
		return nil
	}
}

func size(to *int) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if *to = int(n); err != nil {
			return fmt.Errorf("want a number of bytes")
		}
		return nil
	}
}

// pairs is a list of names and values, with separator between the two.
func pairs(to *map[string]string, separator string) func(string) error {
	return func(v string) error {
		*to = map[string]string{}
		for one := range strings.SplitSeq(v, ",") {
			name, value, ok := strings.Cut(one, separator)
			if !ok || name == "" {
				return fmt.Errorf("want NAME%sVALUE,NAME%[1]sVALUE", separator)
			}
			(*to)[name] = value
		}
		return nil
	}
}

// word is text for one of words, in any case.
func word(to *string, words ...string) func(string) error {
	return func(v string) error {
		for _, w := range words {
			if strings.EqualFold(v, w) {
				*to = w
				return nil
			}
		}
		return fmt.Errorf("want %s", strings.Join(words, " or "))
	}
}

// An address is a host and a port.
type address struct{ host, port string }

func (a address) String() string { return net.JoinHostPort(a.host, a.port) }
