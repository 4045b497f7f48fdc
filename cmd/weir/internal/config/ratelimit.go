package config

import (
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/xds"
)

// RateLimit configures `weir ratelimit`, which replaces envoyproxy/ratelimit. Its HTTP
// interface serves only /json and /healthcheck.
type RateLimit struct {
	// Debug is the address of the debug interface. Metrics is that of an interface that
	// serves only metrics, at MetricsPath; "": none.
	Debug, Metrics, MetricsPath string

	// XDS is the control plane that sends the limits; nil: GRPC.Config has them. Until the
	// first ones arrive, the program opens no interface for clients, unless StartWithout.
	XDS          *xds.Config
	StartWithout bool

	// Headers names the fields of GRPC.ResponseHeaders: limit, remaining, reset.
	Headers [3]string

	// NearRatio is the part of a limit above which hits count as near_limit.
	NearRatio float64

	// KeyPrefix precedes the keys of all limits.
	KeyPrefix string

	// MaxConnectionAge is the time after which gRPC clients are asked to reconnect, and
	// MaxConnectionAgeGrace the time in which they do.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration

	// NeedsLimits and NeedsStore are conditions of a positive /healthcheck: that a
	// configuration is loaded, and that the store is available.
	NeedsLimits, NeedsStore bool

	// ServiceName is the name of the program in traces.
	ServiceName string

	// Getenv reads the environment variables of OpenTelemetry.
	Getenv func(string) string

	// Notes lists variables without effect, for the log.
	Notes []string
}

// RateLimits reports whether the gRPC interface has limits, or will receive them.
func (c *Config) RateLimits() bool { return c.GRPC.Config != "" || c.Demo() || c.RateLimit != nil }
