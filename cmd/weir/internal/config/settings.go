package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/postgres"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/redisstore"
)

// A Setting is one value of a flag or an environment variable.
type Setting struct {
	// Name is the name of the flag, such as "listen-http". The variable is WEIR_ and the
	// name in upper case: WEIR_LISTEN_HTTP.
	Name string

	// Default is the default value, in the form of the flag.
	Default string

	// Usage describes the setting in one line, with the kind of value in back quotes.
	Usage string

	set func(c *Config, value string) error
}

// Env returns the name of the environment variable.
func (s Setting) Env() string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Off as an address disables the interface.
const Off = "off"

// Settings returns all settings with their defaults.
func Settings() []Setting {
	return slices.Concat(settings(),
		tlsSettings("http", func(c *Config) *TLS { return &c.HTTP.TLS }),
		tlsSettings("grpc", func(c *Config) *TLS { return &c.GRPC.TLS }),
		tlsSettings("resp", func(c *Config) *TLS { return &c.RESP.TLS }),
		tlsSettings("admin", func(c *Config) *TLS { return &c.Admin.TLS }))
}

// tlsSettings returns the settings of TLS of an interface.
func tlsSettings(name string, of func(*Config) *TLS) []Setting {
	return []Setting{
		{
			name + "-tls-cert", "", "`FILE` with the certificate chain of --listen-" + name + " in PEM; enables TLS together with --" + name + "-tls-key",
			func(c *Config, v string) error { of(c).CertFile = v; return nil },
		},
		{
			name + "-tls-key", "", "`FILE` with the private key of --listen-" + name + " in PEM",
			func(c *Config, v string) error { of(c).KeyFile = v; return nil },
		},
		{
			name + "-client-ca", "", "`FILE` with the authorities of client certificates of --listen-" + name + " in PEM; clients then need a certificate",
			func(c *Config, v string) error { of(c).ClientCAFile = v; return nil },
		},
	}
}

func settings() []Setting {
	return []Setting{
		{
			"region", "", "`NAME` of the region of this process among the regions of the file; its store there is the default of --store",
			func(c *Config, v string) error { return c.setRegion(v) },
		},
		{
			"store", "memory",
			"store of the state: memory, or the `URL` of a Redis (redis://, rediss://, redis+sentinel:// or redis+cluster://HOST:PORT,HOST:PORT) or of a database (postgres://HOST/DATABASE)",
			func(c *Config, v string) error { c.Store = v; return CheckStore(v) },
		},
		{
			"snapshot", "", "`FILE` that keeps the state of --store memory across restarts",
			func(c *Config, v string) error { c.Snapshot = v; return nil },
		},
		{
			"listen-gateway", "127.0.0.1:8000", "`ADDRESS` of the gateway, or off",
			func(c *Config, v string) error { c.Gateway.Listen = v; return checkAddress(v) },
		},
		{
			"listen-http", "127.0.0.1:8080", "`ADDRESS` of the HTTP API, or off",
			func(c *Config, v string) error { c.HTTP.Listen = v; return checkAddress(v) },
		},
		{
			"listen-grpc", "127.0.0.1:8081", "`ADDRESS` of the gRPC interface for Envoy, or off",
			func(c *Config, v string) error { c.GRPC.Listen = v; return checkAddress(v) },
		},
		{
			"listen-resp", "127.0.0.1:6380", "`ADDRESS` of the RESP interface with CL.THROTTLE, or off",
			func(c *Config, v string) error { c.RESP.Listen = v; return checkAddress(v) },
		},
		{
			"listen-admin", "127.0.0.1:9090", "`ADDRESS` of the admin interface (metrics, explain, profiles), or off",
			func(c *Config, v string) error { c.Admin.Listen = v; return checkAddress(v) },
		},
		{
			"max-connections", "0", "maximum `N` of open connections of each listener; 0: 10000, or fewer if the process can open few files",
			func(c *Config, v string) (err error) { c.MaxConnections, err = parseCount(v); return err },
		},
		{
			"policies", "file", "source of the policies: `file`, or store for those published with weir apply",
			func(c *Config, v string) error { c.Published = v == "store"; return oneOf(v, "file", "store") },
		},
		{
			"watch", "true", "`true` to reload the file when it changes; SIGHUP always reloads it",
			func(c *Config, v string) (err error) { c.Watch, err = parseBool(v); return err },
		},
		{
			"deadline", failover.DefaultDeadline.String(), "`TIME` limit of a decision in the store; after it, the policy's on_store_error decides",
			func(c *Config, v string) (err error) { c.Deadline, err = parsePositive(v); return err },
		},
		{
			"nodes", "1", "divide limits among `N` processes for on_store_error: local",
			func(c *Config, v string) (err error) {
				if c.Nodes, err = parseCount(v); err == nil && (c.Nodes == 0 || c.Nodes > maxNodes) {
					err = fmt.Errorf("want 1 to %d", maxNodes)
				}
				return err
			},
		},
		{
			"start-degraded", "false", "`true` to start without the store, or with one that cannot keep limits, instead of exiting",
			func(c *Config, v string) (err error) { c.StartDegraded, err = parseBool(v); return err },
		},
		{
			"grpc-config", "", "`PATH` of a directory or file in the format of envoyproxy/ratelimit, for --listen-grpc",
			func(c *Config, v string) error { c.GRPC.Config = v; return nil },
		},
		{
			"grpc-anonymous", "false", "`true` to serve --listen-grpc without --grpc-client-ca on an address that other machines can reach",
			func(c *Config, v string) (err error) { c.GRPC.Anonymous, err = parseBool(v); return err },
		},
		{
			"http-token-file", "", "`FILE` with the token of --listen-http; this or --http-client-ca is required on an address that other machines can reach",
			func(c *Config, v string) (err error) { c.HTTP.TokenFile = v; c.HTTP.Token, err = secret(v); return err },
		},
		{
			"http-serve", "all", "`all`, or auth to serve only /v1/auth and health at --listen-http",
			func(c *Config, v string) error { c.HTTP.AuthOnly = v == "auth"; return oneOf(v, "all", "auth") },
		},
		{
			"http-hosts", "", "`NAMES` that requests to --listen-http without credentials may have as Host, with commas; localhost and addresses always",
			func(c *Config, v string) (err error) { c.HTTP.Hosts, err = hostNames(v); return err },
		},
		{
			"resp-password-file", "", "`FILE` with the password of --listen-resp, which clients send with AUTH; this or --resp-client-ca is required on an address that other machines can reach",
			func(c *Config, v string) (err error) {
				c.RESP.PasswordFile = v
				c.RESP.Password, err = secret(v)
				return err
			},
		},
		{
			"admin-token-file", "", "`FILE` with the token of --listen-admin, or a line of weir token for each user; this or --admin-client-ca is required on an address that other machines can reach",
			func(c *Config, v string) (err error) {
				c.Admin.TokenFile = v
				c.Admin.Token, err = tokens(v)
				return err
			},
		},
		{
			"log-decisions", "0", "log one of `N` admitting decisions; 0: none",
			func(c *Config, v string) (err error) { c.Decisions.Admitted, err = parseCount(v); return err },
		},
		{
			"log-denials", "0", "log one of `N` denials; 0: none",
			func(c *Config, v string) (err error) { c.Decisions.Denied, err = parseCount(v); return err },
		},
		{
			"log-keys", "hash", "form of keys in the decision log: `hash`, plain or off",
			func(c *Config, v string) error { c.Decisions.Keys = v; return oneOf(v, "hash", "plain", "off") },
		},
		{
			"tls-cert", "", "`FILE` with the certificate chain of the gateway in PEM; enables TLS together with --tls-key",
			func(c *Config, v string) error { c.Gateway.CertFile = v; return nil },
		},
		{
			"tls-key", "", "`FILE` with the private key of the gateway in PEM",
			func(c *Config, v string) error { c.Gateway.KeyFile = v; return nil },
		},
		{
			"request-id", "false", "`true` to add an X-Request-Id to every request through the gateway",
			func(c *Config, v string) (err error) { c.Gateway.RequestID, err = parseBool(v); return err },
		},
		{
			"access-log", "0", "log one of `N` requests through the gateway at level debug; 0: none",
			func(c *Config, v string) (err error) { c.Gateway.AccessLog, err = parseCount(v); return err },
		},
		{
			"drain", "10s", "`TIME` limit for requests in flight after a signal to stop",
			func(c *Config, v string) (err error) { c.Drain, err = parseDuration(v); return err },
		},
		{
			"drain-delay", "0s", "`TIME` between the failure of /readyz and the drain",
			func(c *Config, v string) (err error) { c.DrainDelay, err = parseDuration(v); return err },
		},
		{
			"log", "text", "`FORMAT` of the log: text or json",
			func(c *Config, v string) error { c.Log.Format = v; return oneOf(v, "text", "json") },
		},
		{
			"log-level", "info", "minimum `LEVEL` of the log: debug, info, warn or error",
			func(c *Config, v string) error {
				if err := oneOf(v, "debug", "info", "warn", "error"); err != nil {
					return err
				}
				return c.Log.Level.UnmarshalText([]byte(v))
			},
		},
	}
}

// setRegion sets the region of this process.
func (c *Config) setRegion(name string) error {
	if c.Regions == nil {
		if name != "" {
			return errors.New("want none, or regions in the file")
		}
		return nil
	}
	ok := false
	if c.Region, ok = c.Regions.Region(name); !ok {
		return fmt.Errorf("want the region of this process: one of %s", strings.Join(c.Regions.Names(), ", "))
	}
	return nil
}

// Log configures the log.
type Log struct {
	Format string // "text" or "json"
	Level  slog.Level
}

// CheckStore validates the name of a store.
func CheckStore(v string) error {
	if v == "memory" {
		return nil
	}
	if setup.Postgres(v) {
		_, err := postgres.ParseURL(v)
		return err
	}
	if _, err := redisstore.ParseURL(v); err != nil {
		return fmt.Errorf("want memory, redis://HOST:PORT, rediss://…, redis+sentinel://…, redis+cluster://HOST:PORT,HOST:PORT or postgres://HOST/DATABASE: %w", err)
	}
	return nil
}

func checkAddress(v string) error {
	if v == Off {
		return nil
	}
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("want HOST:PORT such as 127.0.0.1:8000 or :8000, or off")
	}
	return nil
}

// hostNames parses names with commas; none for "".
func hostNames(v string) (names []string, err error) {
	if v == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(v, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			return nil, fmt.Errorf("want host names without ports, such as weir.internal,weir.example.com")
		}
		names = append(names, name)
	}
	return names, nil
}

func oneOf(v string, want ...string) error {
	for _, w := range want {
		if v == w {
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(want, ", "))
}

func parseBool(v string) (bool, error) {
	return v == "true", oneOf(v, "true", "false")
}

func parseCount(v string) (int, error) {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("want a whole number of 0 or more")
	}
	return int(n), nil
}

// maxNodes bounds Config.Nodes.
const maxNodes = 100_000

func parsePositive(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > time.Minute {
		return 0, fmt.Errorf("want a duration above 0 and up to 1m such as 50ms")
	}
	return d, nil
}

func parseDuration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration of 0 or more such as 10s")
	}
	return d, nil
}
