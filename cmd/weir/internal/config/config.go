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

	"github.com/floodweir/weir/cmd/weir/internal/certificate"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// Config is the complete and validated configuration of `weir serve`.
type Config struct {
	// File is the name of the policy file; "" for the demo. Text is its content.
	File string
	Text string

	// Store is "memory" or the URL of a Redis or of PostgreSQL. It may contain a password: see [Redacted].
	Store string

	// Snapshot is the file that keeps the state of a memory store across restarts; none
	// if empty.
	Snapshot string

	Gateway  Gateway
	System   *weirfile.SystemRules // nil without rules
	HTTP     HTTP
	GRPC     GRPC
	RESP     RESP
	Admin    Admin
	Policies *policy.Set

	// Shares configures the shares of limits that come with requests, without a policy.
	Shares policy.Shares

	// Regions lists the regions that divide the limits, and Region is that of this process; nil and
	// zero if there are none.
	Regions *weirfile.Regions
	Region  weirfile.Region

	// RateLimit is not nil for `weir ratelimit`.
	RateLimit *RateLimit

	// MaxConnections is the maximum number of open connections of each listener. Zero
	// means a default by the files that the process can open.
	MaxConnections int

	// Published takes the policies from the store, once any are published there.
	Published bool

	// Watch reloads the file when it changes.
	Watch bool

	// Deadline bounds the time of a decision in Redis. Nodes is the number of processes
	// among which limits are divided for on_store_error: local.
	Deadline time.Duration
	Nodes    int

	// StartDegraded starts without Redis, or with a Redis that cannot keep limits.
	StartDegraded bool

	Log       Log
	Decisions Decisions

	// DrainDelay is the time between the failure of /readyz and the drain after a signal
	// to stop. Drain bounds the time in which requests in flight end.
	DrainDelay, Drain time.Duration
}

// TLS names the files of TLS of a listener.
type TLS = certificate.Files

// Gateway configures the reverse proxy. Listen may be Off.
type Gateway struct {
	Listen      string
	TLS         // without a ClientCAFile
	Routes      []weirfile.Route
	Client      httplimit.ClientAddress
	Fields      httplimit.Fields
	RetryJitter time.Duration
	KeyBody     httplimit.BodyLimit
	RequestID   bool
	AccessLog   int // logs one of this many requests; 0: none
}

// HTTP configures the HTTP API. Listen may be Off.
type HTTP struct {
	Listen    string
	Client    httplimit.ClientAddress // of the clients of /v1/auth
	TokenFile string                  // "": none
	Token     string                  // its content
	AuthOnly  bool                    // serve only /v1/auth and health
	Hosts     []string                // names that are accepted as Host without credentials
	TLS
}

// GRPC configures the interface for Envoy. Listen may be Off.
type GRPC struct {
	Listen          string
	Config          string          // a directory or a file; "": none
	Anonymous       bool            // clients of other machines need no certificate
	OnStoreError    policy.FailMode // "": the request gets an error
	ResponseHeaders bool
	DynamicMetadata bool
	Shadow, Quota   bool
	MergeDomains    bool // several files may define one domain
	QuotaService    weirfile.QuotaService
	TLS
}

// RESP configures the interface for redis-cell clients. Listen may be Off.
type RESP struct {
	Listen                 string
	PasswordFile, Password string // "": none; the content of the file
	TLS
}

// Admin configures the interface for operators. Listen may be Off.
type Admin struct {
	Listen           string
	Client           httplimit.ClientAddress
	TokenFile, Token string // "": none; the content of the file, a token or lines of tokens
	TLS
}

// Decisions configures the decision log: it logs one of this many decisions, or none if
// zero.
type Decisions struct {
	Admitted, Denied int
	Keys             string // "hash", "plain" or "off"
}

// Demo reports whether the program runs the demo, because no file was named.
func (c *Config) Demo() bool { return c.File == "" && c.RateLimit == nil }

// A Source holds the inputs of Load.
type Source struct {
	File  string            // the policy file; "": the demo
	Flags map[string]string // the given flags, by name
	Env   func(string) string

	// AnyRegion makes a process that names no region one of the first region, for commands that decide
	// nothing.
	AnyRegion bool

	RateLimit *RateLimit // nil: not `weir ratelimit`
}

//go:embed demo.yaml
var demo []byte

//go:embed demo-ratelimit.yaml
var demoRateLimits []byte

// DemoRateLimits returns the configuration of the gRPC interface in the demo, in the
// format of envoyproxy/ratelimit.
func DemoRateLimits() []byte { return demoRateLimits }

// Load reads the configuration. An error lists every invalid value with its source and
// the expected values.
func Load(s Source) (*Config, error) {
	file, err := read(s.File)
	if err != nil {
		return nil, err
	}
	return Complete(file, s)
}

// Complete is like Load for a file that is already read.
func Complete(file *weirfile.File, s Source) (*Config, error) {
	c := &Config{File: s.File, Text: file.Text, Policies: file.Policies, RateLimit: s.RateLimit}
	c.System, c.Shares, c.Regions = file.System, file.Shares, file.Regions
	c.Gateway.Routes = file.Gateway.Routes
	c.Gateway.Client = file.Gateway.Client
	c.Gateway.Fields = file.Gateway.Fields
	c.Gateway.RetryJitter = file.Gateway.RetryJitter
	c.Gateway.KeyBody = file.Gateway.KeyBody
	c.HTTP.Client = file.HTTP.Client
	c.Admin.Client = file.Admin.Client
	c.GRPC.OnStoreError = file.GRPC.OnStoreError
	c.GRPC.ResponseHeaders = file.GRPC.ResponseHeaders
	c.GRPC.DynamicMetadata = file.GRPC.DynamicMetadata
	c.GRPC.Shadow, c.GRPC.Quota = file.GRPC.Shadow, file.GRPC.Quota
	c.GRPC.MergeDomains = file.GRPC.MergeDomains
	c.GRPC.QuotaService = file.GRPC.QuotaService
	inFile := map[string]string{
		"store":          file.Store,
		"listen-gateway": file.Gateway.Listen,
		"listen-http":    file.HTTP.Listen,
		"listen-grpc":    file.GRPC.Listen,
		"listen-resp":    file.RESP.Listen,
		"listen-admin":   file.Admin.Listen,
		"grpc-config":    file.GRPC.Config,
		"http-serve":     file.HTTP.Serve,
		"http-hosts":     strings.Join(file.HTTP.Hosts, ","),
	}
	if file.Failover.StartDegraded {
		inFile["start-degraded"] = "true"
	}
	if d := file.Failover.Deadline; d != 0 {
		inFile["deadline"] = d.String()
	}
	if n := file.Failover.Nodes; n != 0 {
		inFile["nodes"] = strconv.Itoa(n)
	}
	if r := file.Regions; r != nil {
		inFile["region"] = r.Here
		if r.Here == "" && s.AnyRegion {
			inFile["region"] = r.Members[0].Name
		}
	}
	var errs []error
	for _, setting := range Settings() {
		where, value := s.value(setting, inFile)
		if err := setting.set(c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", where, Redacted(value), err))
		}
		if setting.Name == "region" && c.Region.Store != "" {
			inFile["store"] = c.Region.Store
		}
	}
	errs = append(errs, c.check()...)
	return c, errors.Join(errs...)
}

// value returns the value of a setting and its source.
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

// check validates the settings together.
func (c *Config) check() (errs []error) {
	if c.Snapshot != "" && c.Store != "memory" {
		errs = append(errs, fmt.Errorf("--snapshot %q: want --store memory; a server has its own persistence", c.Snapshot))
	}
	if c.Published && !setup.Redis(c.Store) {
		errs = append(errs, errors.New("--policies store: want the --store of a Redis, where policies are published"))
	}
	if c.Regions != nil && len(c.GRPC.QuotaService.Domains) > 0 {
		errs = append(errs, errors.New("grpc.quota_service: want none with regions: its clients hold parts of whole limits"))
	}
	if len(c.GRPC.QuotaService.Domains) > 0 && c.GRPC.Config == "" {
		errs = append(errs, errors.New("grpc.quota_service: want grpc.config too, with the limits of its domains"))
	}
	for _, l := range []struct {
		prefix string // of its flags
		TLS
	}{{"", c.Gateway.TLS}, {"http-", c.HTTP.TLS}, {"grpc-", c.GRPC.TLS}, {"resp-", c.RESP.TLS}, {"admin-", c.Admin.TLS}} {
		if (l.CertFile == "") != (l.KeyFile == "") {
			errs = append(errs, fmt.Errorf("--%stls-cert and --%[1]stls-key: want both or neither", l.prefix))
		}
		if l.ClientCAFile != "" && l.CertFile == "" {
			errs = append(errs, fmt.Errorf("--%sclient-ca: want --%[1]stls-cert and --%[1]stls-key too", l.prefix))
		}
	}
	return append(errs, c.checkListeners()...)
}

// checkListeners validates that the addresses differ and that at least one interface of
// clients listens.
func (c *Config) checkListeners() (errs []error) {
	listeners := []struct{ flag, listen, without string }{
		{"--listen-gateway", c.Gateway.Listen, c.without(len(c.Gateway.Routes) > 0, "gateway.routes")},
		{"--listen-http", c.HTTP.Listen, ""},
		{"--listen-grpc", c.GRPC.Listen, c.without(c.GRPC.Config != "", "--grpc-config")},
		{"--listen-resp", c.RESP.Listen, ""},
		{"--listen-admin", c.Admin.Listen, ""},
	}
	var closed []string
	for i, d := range listeners {
		switch {
		case d.flag == "--listen-admin": // decides no requests
		case d.listen == Off:
			closed = append(closed, d.flag+" off")
		case d.without != "":
			closed = append(closed, d.flag+" without "+d.without)
		}
		if d.listen == Off {
			continue
		}
		for _, e := range listeners[:i] {
			if _, port, _ := net.SplitHostPort(d.listen); d.listen == e.listen && port != "0" {
				errs = append(errs, fmt.Errorf("%s and %s: both are %s, want two addresses", e.flag, d.flag, d.listen))
			}
		}
	}
	if len(closed) == len(listeners)-1 {
		errs = append(errs, fmt.Errorf("nothing would decide requests: got %s; want at least one of them", strings.Join(closed, ", ")))
	}
	return errs
}

// without returns what an interface needs to listen, or "" if it has it. The demo has all.
func (c *Config) without(has bool, what string) string {
	if has || c.Demo() {
		return ""
	}
	return what
}

// Redacted returns a store's URL without its password and its parameters, which may
// contain another one.
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

// DefaultServer is the default server of the commands.
const DefaultServer = "http://127.0.0.1:8080"

// Server returns the server of the flag, else of WEIR_SERVER, else DefaultServer.
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
