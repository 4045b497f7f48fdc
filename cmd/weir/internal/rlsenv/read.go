package rlsenv

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/xds"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// xdsType is the value of CONFIG_TYPE for limits of a control plane.
const xdsType = "GRPC_XDS_SOTW"

// Source is the environment.
type Source struct {
	Getenv func(string) string
	Names  []string // of all variables
}

// A reader holds the values of the variables.
type reader struct {
	c    config.RateLimit
	file weirfile.File

	http, grpc, debug               address
	serverTLS                       bool
	cert, key, clientCA, clientName string

	configType                       string
	root, subdirectory, appDirectory string

	xds      xds.Config
	xdsFiles xds.TLS
	xdsTLS   bool
	jitter   bool

	redis   redis
	timeout time.Duration // 0: not set

	level, format string
	prometheus    bool
	tracing       bool
	sampling      float64
}

// Read reads the environment. An error lists every variable with an invalid value.
func Read(s Source) (*config.Config, error) {
	r := &reader{
		c: config.RateLimit{
			Metrics: ":9090", MetricsPath: "/metrics", NearRatio: 0.8, ServiceName: "RateLimit",
			MaxConnectionAge: 24 * time.Hour, MaxConnectionAgeGrace: time.Hour,
		},
		http: address{"0.0.0.0", "8080"}, grpc: address{"0.0.0.0", "8081"}, debug: address{"127.0.0.1", "6070"},
		xds:        xds.Config{NodeID: "default", Server: "localhost:18000", Jitter: 0.5},
		jitter:     true,
		configType: "FILE", root: "/srv/runtime_data/current", appDirectory: "config",
		redis: redis{kind: "SINGLE"}, level: "warn", format: "text", sampling: 1,
	}
	errs := r.read(s)
	if s.Getenv("WEIR_STORE") == "" || r.redis.url != "" {
		url, err := r.redis.storeURL()
		if err != nil {
			errs = append(errs, fmt.Errorf("REDIS_URL: %w", err))
		}
		r.file.Store = url
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r.complete(s)
}

// read sets the values, and adds to the notes.
func (r *reader) read(s Source) (errs []error) {
	exact, prefixes := map[string]variable{}, map[string]variable{}
	for _, v := range r.variables() {
		if prefix, ok := strings.CutSuffix(v.name, "*"); ok {
			prefixes[prefix] = v
		} else {
			exact[v.name] = v
		}
	}
	for _, name := range slices.Sorted(slices.Values(s.Names)) {
		value := s.Getenv(name)
		if value == "" {
			continue
		}
		v, ok := exact[name]
		for prefix, p := range prefixes {
			if !ok && strings.HasPrefix(name, prefix) && !strings.Contains(value, "://") {
				v, ok = p, true
			}
		}
		switch {
		case !ok && unknown(name, value):
			r.c.Notes = append(r.c.Notes, name+" has no effect: there is no variable of this name")
		case !ok:
		case v.set != nil:
			if err := v.set(value); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: %w", name, config.Redacted(value), err))
			}
		case value != v.quiet:
			r.c.Notes = append(r.c.Notes, name+" has no effect: "+v.why)
		}
	}
	return errs
}

// complete returns the configuration of the values.
func (r *reader) complete(s Source) (*config.Config, error) {
	r.c.Debug = r.debug.String()
	if !r.prometheus {
		r.c.Metrics = ""
	}
	none, err := policy.NewSet()
	if err != nil {
		return nil, err
	}
	f := &r.file
	f.Policies = none
	f.Gateway.Listen, f.RESP.Listen, f.Admin.Listen = config.Off, config.Off, config.Off
	flags := map[string]string{
		"listen-http": r.http.String(), "listen-grpc": r.grpc.String(), "grpc-anonymous": "true",
		"log": r.format, "log-level": levelOf(r.level),
	}
	if r.configType == xdsType {
		r.c.XDS = &r.xds
	} else {
		flags["grpc-config"] = filepath.Join(r.root, r.subdirectory, r.appDirectory)
	}
	if r.xdsTLS {
		r.xds.TLS = &r.xdsFiles
	}
	if !r.jitter {
		r.xds.Jitter = 0
	}
	if f.Store != "" {
		flags["store"] = f.Store
	}
	if r.timeout > 0 {
		flags["deadline"] = min(r.timeout, time.Minute).String()
	}
	if r.serverTLS {
		flags["grpc-tls-cert"], flags["grpc-tls-key"], flags["grpc-client-ca"] = r.cert, r.key, r.clientCA
	}
	c, err := config.Complete(f, config.Source{Flags: flags, Env: s.Getenv, RateLimit: &r.c})
	if err == nil {
		c.GRPC.ClientName = r.clientName
		c.RateLimit.Getenv = r.telemetry(s.Getenv)
	}
	return c, err
}

// levelOf returns the level of the log for a level of envoyproxy/ratelimit.
func levelOf(level string) string {
	switch level {
	case "trace":
		return "debug"
	case "warning":
		return "warn"
	case "fatal", "panic":
		return "error"
	}
	return level
}

// telemetry returns the variables of OpenTelemetry, with those that TRACING_ variables set.
func (r *reader) telemetry(getenv func(string) string) func(string) string {
	return func(name string) string {
		value := getenv(name)
		switch {
		case !strings.HasPrefix(name, "OTEL_"):
			return value
		case !r.tracing:
			return ""
		}
		if value != "" {
			return value
		}
		switch name {
		case "OTEL_EXPORTER_OTLP_ENDPOINT":
			return "http://localhost:4318"
		case "OTEL_METRICS_EXPORTER":
			return "none"
		case "OTEL_TRACES_SAMPLER":
			return "parentbased_traceidratio"
		case "OTEL_TRACES_SAMPLER_ARG":
			return strconv.FormatFloat(r.sampling, 'f', -1, 64)
		}
		return ""
	}
}
