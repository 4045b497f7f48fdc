package config

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/redisstore"
)

// A Setting is one value that a flag or the environment can give.
type Setting struct {
	// Name is that of the flag, such as "listen-http". The variable is WEIR_ and the
	// name in capitals: WEIR_LISTEN_HTTP.
	Name string

	// Default is what holds if nothing else is said; in the form of the flag.
	Default string

	// Usage is what the setting does, in one line, with what the value is in back
	// quotes.
	Usage string

	set func(c *Config, value string) error
}

// Env is the name of the environment variable.
func (s Setting) Env() string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Off as the address of a door keeps it shut.
const Off = "off"

// Settings are all settings, with their defaults.
func Settings() []Setting {
	return []Setting{
		{
			"store", "memory",
			"where state lives: memory, or the `URL` of a Redis: redis://, rediss://, redis+sentinel:// or redis+cluster://HOST:PORT,HOST:PORT",
			func(c *Config, v string) error { c.Store = v; return CheckStore(v) },
		},
		{
			"snapshot", "", "`FILE` in which --store memory outlives a restart",
			func(c *Config, v string) error { c.Snapshot = v; return nil },
		},
		{
			"listen-gateway", "127.0.0.1:8000", "`ADDRESS` on which the gateway listens, or off",
			func(c *Config, v string) error { c.Gateway.Listen = v; return checkAddress(v) },
		},
		{
			"listen-http", "127.0.0.1:8080", "`ADDRESS` on which the HTTP API listens, or off",
			func(c *Config, v string) error { c.HTTP.Listen = v; return checkAddress(v) },
		},
		{
			"listen-grpc", "127.0.0.1:8081", "`ADDRESS` on which Envoy's rate limit protocol is spoken, or off",
			func(c *Config, v string) error { c.GRPC.Listen = v; return checkAddress(v) },
		},
		{
			"listen-resp", "127.0.0.1:6380", "`ADDRESS` on which CL.THROTTLE is answered to clients of Redis, or off",
			func(c *Config, v string) error { c.RESP.Listen = v; return checkAddress(v) },
		},
		{
			"listen-admin", "127.0.0.1:9090", "`ADDRESS` of metrics, explanations and profiles, or off",
			func(c *Config, v string) error { c.Admin.Listen = v; return checkAddress(v) },
		},
		{
			"policies", "file", "where policies come from: `file`, or store for those that weir apply published there",
			func(c *Config, v string) error { c.Published = v == "store"; return oneOf(v, "file", "store") },
		},
		{
			"watch", "true", "`true` to read the file again when it changes; SIGHUP does in any case",
			func(c *Config, v string) (err error) { c.Watch, err = parseBool(v); return err },
		},
		{
			"deadline", failover.DefaultDeadline.String(), "`TIME` after which a decision of a Redis is made without it, by the policy's on_store_error",
			func(c *Config, v string) (err error) { c.Deadline, err = parsePositive(v); return err },
		},
		{
			"nodes", "1", "among how many processes, `N`, a limit is divided for on_store_error: local",
			func(c *Config, v string) (err error) {
				if c.Nodes, err = parseCount(v); err == nil && (c.Nodes == 0 || c.Nodes > maxNodes) {
					err = fmt.Errorf("want 1 to %d", maxNodes)
				}
				return err
			},
		},
		{
			"grpc-config", "", "`PATH` of a directory or file in the format of envoyproxy/ratelimit, which --listen-grpc serves",
			func(c *Config, v string) error { c.GRPC.Config = v; return nil },
		},
		{
			"grpc-tls-cert", "", "`FILE` with the certificate chain of --listen-grpc in PEM; with --grpc-tls-key it speaks TLS",
			func(c *Config, v string) error { c.GRPC.CertFile = v; return nil },
		},
		{
			"grpc-tls-key", "", "`FILE` with the private key of --listen-grpc in PEM",
			func(c *Config, v string) error { c.GRPC.KeyFile = v; return nil },
		},
		{
			"grpc-client-ca", "", "`FILE` with the authorities in PEM one of which must have signed a client's certificate",
			func(c *Config, v string) error { c.GRPC.ClientCAFile = v; return nil },
		},
		{
			"resp-password-file", "", "`FILE` with the password that clients of --listen-resp give with AUTH",
			func(c *Config, v string) (err error) { c.RESP.Password, err = secret(v); return err },
		},
		{
			"admin-token-file", "", "`FILE` with the token that --listen-admin asks for; it needs one where other machines can reach it",
			func(c *Config, v string) (err error) { c.Admin.Token, err = secret(v); return err },
		},
		{
			"log-decisions", "0", "log one of `N` decisions that admit; 0 for none",
			func(c *Config, v string) (err error) { c.Decisions.Admitted, err = parseCount(v); return err },
		},
		{
			"log-denials", "0", "log one of `N` decisions that deny; 0 for none",
			func(c *Config, v string) (err error) { c.Decisions.Denied, err = parseCount(v); return err },
		},
		{
			"log-keys", "hash", "how a decision in the log names its key: `hash`, plain or off",
			func(c *Config, v string) error { c.Decisions.Keys = v; return oneOf(v, "hash", "plain", "off") },
		},
		{
			"tls-cert", "", "`FILE` with the certificate chain of the gateway in PEM; with --tls-key it speaks TLS",
			func(c *Config, v string) error { c.Gateway.CertFile = v; return nil },
		},
		{
			"tls-key", "", "`FILE` with the private key of the gateway in PEM",
			func(c *Config, v string) error { c.Gateway.KeyFile = v; return nil },
		},
		{
			"request-id", "false", "`true` to give every request through the gateway an X-Request-Id",
			func(c *Config, v string) (err error) { c.Gateway.RequestID, err = parseBool(v); return err },
		},
		{
			"access-log", "0", "log one of `N` requests through the gateway at level debug; 0 for none",
			func(c *Config, v string) (err error) { c.Gateway.AccessLog, err = parseCount(v); return err },
		},
		{
			"drain", "10s", "`TIME` that requests may take to end after a signal to stop",
			func(c *Config, v string) (err error) { c.Drain, err = parseDuration(v); return err },
		},
		{
			"drain-delay", "0s", "`TIME` to go on as before once /readyz has begun to fail",
			func(c *Config, v string) (err error) { c.DrainDelay, err = parseDuration(v); return err },
		},
		{
			"log", "text", "`FORMAT` of the log: text or json",
			func(c *Config, v string) error { c.Log.Format = v; return oneOf(v, "text", "json") },
		},
		{
			"log-level", "info", "least `LEVEL` of the log: debug, info, warn or error",
			func(c *Config, v string) error {
				if err := oneOf(v, "debug", "info", "warn", "error"); err != nil {
					return err
				}
				return c.Log.Level.UnmarshalText([]byte(v))
			},
		},
	}
}

// Log says how to log.
type Log struct {
	Format string // "text" or "json"
	Level  slog.Level
}

// CheckStore reports what is wrong with the name of a store.
func CheckStore(v string) error {
	if v == "memory" {
		return nil
	}
	if _, err := redisstore.ParseURL(v); err != nil {
		return fmt.Errorf("want memory, redis://HOST:PORT, rediss://…, redis+sentinel://… or redis+cluster://HOST:PORT,HOST:PORT: %w", err)
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

// maxNodes is more processes than anybody runs.
const maxNodes = 100_000

func parsePositive(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > time.Minute {
		return 0, fmt.Errorf("want a duration above 0 and up to 1m such as 50ms")
	}
	return d, nil
}

// secret is what a file says, without the line end; "" for no file.
func secret(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("want a file that can be read: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	s := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("want a file that can be read: %w", err)
	case s == "" || len(text) > maxSecret || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("want a file with one line of 1 to %d bytes without spaces", maxSecret)
	}
	return s, nil
}

const maxSecret = 4096

func parseDuration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration of 0 or more such as 10s")
	}
	return d, nil
}
