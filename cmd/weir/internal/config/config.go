package config

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// Config is everything that `weir serve` needs to know, complete and checked.
type Config struct {
	// File is the name of the policy file; "" for the demonstration.
	File string

	// Store is "memory" or the URL of a Redis. It may hold a password: see
	// [Redacted].
	Store string

	// Snapshot is the file in which a store in memory outlives the process; none if
	// empty.
	Snapshot string

	Gateway  Gateway
	HTTP     HTTP
	GRPC     GRPC
	RESP     RESP
	Admin    Admin
	Policies *policy.Set

	// Published takes the policies from the store instead, as soon as there are some.
	Published bool

	// Watch reads the file again when it changes.
	Watch bool

	// Deadline is how long a decision of a Redis may take, and Nodes among how many
	// processes a limit is divided where it is made without.
	Deadline time.Duration
	Nodes    int

	Log       Log
	Decisions Decisions

	// DrainDelay is how long the doors stay open after a signal to stop, while
	// /readyz already fails; Drain is how long requests may take to end after that.
	DrainDelay, Drain time.Duration
}

// Gateway is the reverse proxy. Listen may be Off.
type Gateway struct {
	Listen            string
	CertFile, KeyFile string // both or none
	Routes            []weirfile.Route
	Client            httplimit.ClientAddress
	Fields            httplimit.Fields
	RetryJitter       time.Duration
	RequestID         bool
	AccessLog         int // one of so many requests; 0 for none
}

// HTTP is the door of questions. Listen may be Off.
type HTTP struct {
	Listen string
	Client httplimit.ClientAddress // of those who ask at /v1/auth
}

// GRPC is the door of Envoy's protocol. Listen may be Off.
type GRPC struct {
	Listen            string
	Config            string // a directory or a file; "" for none
	CertFile, KeyFile string // both or none
	ClientCAFile      string
	OnStoreError      policy.FailMode // "" for an error
	ResponseHeaders   bool
	DynamicMetadata   bool
	Shadow, Quota     bool
	MergeDomains      bool // several files may have one domain
}

// RESP is the door of CL.THROTTLE. Listen may be Off.
type RESP struct{ Listen, Password string }

// Admin is the door of those who run the program. Listen may be Off.
type Admin struct{ Listen, Token string }

// Decisions say how many decisions are logged: one of so many, or none if zero.
type Decisions struct {
	Admitted, Denied int
	Keys             string // "hash", "plain" or "off"
}

// Demo reports whether this is the demonstration: no file was named.
func (c *Config) Demo() bool { return c.File == "" }

// A Source is where settings come from.
type Source struct {
	File  string            // the policy file; "" for the demonstration
	Flags map[string]string // the flags that were given, by name
	Env   func(string) string
}

//go:embed demo.yaml
var demo []byte

//go:embed demo-ratelimit.yaml
var demoRateLimits []byte

// DemoRateLimits is what the door of gRPC serves in the demonstration, in the format of
// envoyproxy/ratelimit.
func DemoRateLimits() []byte { return demoRateLimits }

// Load reads everything. An error names every value at fault, where it stands and
// what was expected.
func Load(s Source) (*Config, error) {
	file, err := read(s.File)
	if err != nil {
		return nil, err
	}
	return Complete(file, s)
}

// Complete is Load of a file that was read.
func Complete(file *weirfile.File, s Source) (*Config, error) {
	c := &Config{File: s.File, Policies: file.Policies}
	c.Gateway.Routes = file.Gateway.Routes
	c.Gateway.Client = file.Gateway.Client
	c.Gateway.Fields = file.Gateway.Fields
	c.Gateway.RetryJitter = file.Gateway.RetryJitter
	c.HTTP.Client = file.HTTP.Client
	c.GRPC.OnStoreError = file.GRPC.OnStoreError
	c.GRPC.ResponseHeaders = file.GRPC.ResponseHeaders
	c.GRPC.DynamicMetadata = file.GRPC.DynamicMetadata
	c.GRPC.Shadow, c.GRPC.Quota = file.GRPC.Shadow, file.GRPC.Quota
	c.GRPC.MergeDomains = file.GRPC.MergeDomains
	inFile := map[string]string{
		"store":          file.Store,
		"listen-gateway": file.Gateway.Listen,
		"listen-http":    file.HTTP.Listen,
		"listen-grpc":    file.GRPC.Listen,
		"listen-resp":    file.RESP.Listen,
		"listen-admin":   file.Admin.Listen,
		"grpc-config":    file.GRPC.Config,
	}
	if d := file.Failover.Deadline; d != 0 {
		inFile["deadline"] = d.String()
	}
	if n := file.Failover.Nodes; n != 0 {
		inFile["nodes"] = strconv.Itoa(n)
	}
	var faults []error
	for _, setting := range Settings() {
		where, value := s.value(setting, inFile)
		if err := setting.set(c, value); err != nil {
			faults = append(faults, fmt.Errorf("%s %q: %w", where, Redacted(value), err))
		}
	}
	faults = append(faults, c.check()...)
	return c, errors.Join(faults...)
}

// find is where a setting's value stands, and the value.
func (s Source) value(t Setting, inFile map[string]string) (where, value string) {
	if v, ok := s.Flags[t.Name]; ok {
		return "--" + t.Name, v
	}
	if v := s.Env(t.Env()); v != "" {
		return t.Env(), v
	}
	if v := inFile[t.Name]; v != "" {
		return s.File + ": " + t.Name, v
	}
	return "--" + t.Name, t.Default
}

func read(name string) (*weirfile.File, error) {
	if name == "" {
		return weirfile.Parse("demo.yaml", demo)
	}
	return weirfile.Load(name)
}

// check looks at the settings together.
func (c *Config) check() (faults []error) {
	if c.Snapshot != "" && c.Store != "memory" {
		faults = append(faults, fmt.Errorf("--snapshot %q: want --store memory with it; a Redis keeps its own", c.Snapshot))
	}
	if c.Published && c.Store == "memory" {
		faults = append(faults, errors.New("--policies store: want the --store of a Redis with it, where they are published"))
	}
	if (c.Gateway.CertFile == "") != (c.Gateway.KeyFile == "") {
		faults = append(faults, errors.New("--tls-cert and --tls-key: want both or none"))
	}
	if (c.GRPC.CertFile == "") != (c.GRPC.KeyFile == "") {
		faults = append(faults, errors.New("--grpc-tls-cert and --grpc-tls-key: want both or none"))
	}
	if c.GRPC.ClientCAFile != "" && c.GRPC.CertFile == "" {
		faults = append(faults, errors.New("--grpc-client-ca: want --grpc-tls-cert and --grpc-tls-key with it"))
	}
	return append(faults, c.checkListeners()...)
}

// checkDoors looks for doors in one place.
func (c *Config) checkListeners() (faults []error) {
	doors := []struct{ flag, listen string }{
		{"--listen-gateway", c.Gateway.Listen}, {"--listen-http", c.HTTP.Listen}, {"--listen-grpc", c.GRPC.Listen},
		{"--listen-resp", c.RESP.Listen}, {"--listen-admin", c.Admin.Listen},
	}
	var open int
	for i, d := range doors {
		if d.listen == Off {
			continue
		}
		if d.flag != "--listen-admin" { // which answers no question about a limit
			open++
		}
		for _, e := range doors[:i] {
			if _, port, _ := net.SplitHostPort(d.listen); d.listen == e.listen && port != "0" {
				faults = append(faults, fmt.Errorf("%s and %s: both are %s, want two addresses", e.flag, d.flag, d.listen))
			}
		}
	}
	if open == 0 {
		faults = append(faults, errors.New("--listen-gateway, --listen-http, --listen-grpc and --listen-resp: all are off, want at least one door"))
	}
	return faults
}

// Redacted is a store's URL without what may be secret: its password, and its
// parameters, one of which may be another.
func Redacted(store string) string {
	scheme, rest, ok := strings.Cut(store, "://")
	if !ok {
		return store
	}
	rest, params, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = user + ":xxxxx@" + rest[at+1:]
	}
	if params != "" {
		rest += "?xxxxx"
	}
	return scheme + "://" + rest
}

// DefaultServer is the server that the commands of a shell ask.
const DefaultServer = "http://127.0.0.1:8080"

// Server is the server to ask: that of a flag, else WEIR_SERVER, else
// DefaultServer.
func Server(flag string, env func(string) string) (*url.URL, error) {
	where, value := "--server", flag
	if value == "" {
		where, value = "WEIR_SERVER", env("WEIR_SERVER")
	}
	if value == "" {
		value = DefaultServer
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s %q: want http://HOST:PORT or https://HOST:PORT", where, value)
	}
	return u, nil
}
