package weirfile

import (
	"fmt"
	"net/url"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// A File holds the values of a policy file. A field that the file omits is zero; the
// program fills in the defaults.
type File struct {
	// Name is the name of the file, Text its content.
	Name string
	Text string

	// Version is the number of the published version that a Follower has read; 0 for other
	// files.
	Version int64

	// Store is "memory", or a URL with the scheme redis, rediss, redis+sentinel, redis+cluster or
	// postgres; "" if omitted. It may contain a password.
	Store string

	Gateway Gateway
	HTTP    HTTP
	GRPC    GRPC
	RESP    Listener
	Admin   Admin

	Failover Failover

	// Shares configures the shares of limits that come with requests, without a policy. It is
	// also the default of the policies, which have it already.
	Shares policy.Shares

	// Regions lists the regions that divide the limits; nil if omitted.
	Regions *Regions

	// System configures the rejection of requests while the process is overloaded; nil if
	// omitted.
	System *SystemRules

	// Policies holds the policies in the order of the file.
	Policies *policy.Set

	// Functions configures limits on functions, for [guard.Config]; nil if omitted.
	Functions *guard.Functions

	// Notes lists fields in an old form that should be replaced, fields with a better
	// alternative, and policies that apply to no request, as
	// "file:line:column: note: field: what to use".
	Notes []string
}

// HTTP configures the HTTP API.
type HTTP struct {
	Listener

	// Client configures which proxies are trusted for the requests described to
	// /v1/auth: http.trusted_proxies and http.client_header.
	Client httplimit.ClientAddress

	// Serve is "auth" if the listener serves only /v1/auth and health, "all" for
	// everything; "" if omitted.
	Serve string

	// Hosts are names that requests without credentials may have as Host, in lower case.
	Hosts []string
}

// GRPC configures the interface for Envoy's rate limit protocol.
type GRPC struct {
	Listener

	// Config is a directory or file in the format of envoyproxy/ratelimit; "" if
	// omitted. In the file it is relative to the file's directory.
	Config string

	// OnStoreError is the response when the store is unavailable: policy.Open,
	// policy.Closed, policy.Local, or "" for an error, which leaves the decision to
	// Envoy's failure_mode_deny.
	OnStoreError policy.FailMode

	// ResponseHeaders adds RateLimit fields to responses: response_headers.
	ResponseHeaders bool

	// DynamicMetadata adds the request, and the metadata of the limits that admitted
	// it, to responses: dynamic_metadata.
	DynamicMetadata bool

	// Shadow admits every request: shadow_mode.
	Shadow bool

	// Quota denies a request only if all of its limits do: quota_mode.
	Quota bool

	// MergeDomains allows several files for one domain: merge_domains.
	MergeDomains bool

	// QuotaService configures Envoy's rate limit quota service: quota_service.
	QuotaService QuotaService
}

// QuotaService configures Envoy's rate limit quota service. It is off without Domains.
type QuotaService struct {
	// Domains lists the domains that it has instead of the rate limit service.
	Domains []string

	// TTL is the time to live of assignments, in whole seconds; zero if omitted.
	TTL time.Duration

	// Reuse is the time for which clients reuse an assignment that has expired. Allow means that
	// they admit every request then. If both are zero, they deny.
	Reuse time.Duration
	Allow bool
}

// Failover configures what happens when the store is slow or unavailable.
type Failover struct {
	// Deadline limits the time of a decision; zero if omitted.
	Deadline time.Duration

	// Nodes is the number of processes among which on_store_error: local divides a
	// limit; zero if omitted.
	Nodes int

	// StartDegraded starts a program without the store, or with one that cannot keep limits.
	StartDegraded bool
}

// Admin configures the interface for operators.
type Admin struct {
	Listener

	// Client configures the proxies that are trusted for the client's address and for the
	// scheme of its request: admin.trusted_proxies and admin.client_header.
	Client httplimit.ClientAddress
}

// A Listener configures the socket of one protocol.
type Listener struct {
	// Listen is host:port, where the host may be empty, or "off"; "" if omitted.
	Listen string
}

// A Gateway configures the reverse proxy.
type Gateway struct {
	// Listen is host:port, where the host may be empty, or "off"; "" if omitted.
	Listen string

	// Routes are in the order of the file. Each pair of Host and Path occurs once.
	Routes []Route

	// Client configures how the client's address is found: trusted_proxies and
	// client_header.
	Client httplimit.ClientAddress

	// Fields selects the response fields; zero if omitted.
	Fields httplimit.Fields

	// RetryJitter is the maximum added to Retry-After; zero if omitted.
	RetryJitter time.Duration

	// KeyBody bounds the bodies that key parts read, by key_body and key_body_timeout; its
	// fields are zero if omitted.
	KeyBody httplimit.BodyLimit
}

// A Route forwards requests to one upstream.
type Route struct {
	// Host is a host name in lower case without port, or "" for any.
	Host string

	// Path begins with a slash and, except for "/", does not end in one. It matches
	// itself and every path below it.
	Path string

	// Upstream is an http, https or h2c URL with a host and without user, query and
	// fragment.
	Upstream *url.URL

	// Timeout limits the wait for the headers of the upstream's response; zero if
	// omitted.
	Timeout time.Duration

	// Protections configures the breaker, bulkhead and adaptive limit of the upstream. Routes to one
	// upstream with equal settings share them.
	Protections guard.Settings
}

// MaxSize is the maximum size of a file, in bytes. Without long lists of overrides it has at most 4 MiB.
const MaxSize = 16 << 20

// Load reads the file at path and the files that it includes. It returns the errors of Parse, or an error of package
// os if the file cannot be read.
func Load(path string) (*File, error) {
	data, err := read(path, MaxSize)
	if err != nil {
		return nil, err
	}
	return parse(path, data, readTable)
}

// Parse reads data, the content of the file name. It returns Errors, which wrap
// weir.ErrInvalid, with every fault in the order of the file. It reads no other file: a policy
// whose overrides are in another one is a fault.
func Parse(name string, data []byte) (*File, error) { return parse(name, data, nil) }

func parse(name string, data []byte, readTable func(string) ([]byte, error)) (*File, error) {
	if len(data) > MaxSize {
		return nil, tooLarge(name, MaxSize, "want a file of at most %d bytes")
	}
	text, blocks := cut(data)
	if len(text) > maxOutside {
		return nil, tooLarge(name, maxOutside, wantOutside)
	}
	f, d := decode(name, text, blocks, readTable)
	if at := blocks.unread(); d.broken || at > 0 {
		switch {
		case len(data) <= maxOutside:
			f, d = decode(name, data, nil, readTable) // as one text
		case at > 0:
			d.FailAt(at, 1, "", moreThan(maxOutside), fmt.Sprintf(wantOutside, maxOutside))
		}
	}
	if errs := d.Errors(); len(errs) > 0 {
		return nil, errs.Cut()
	}
	f.Text, f.Notes = string(data), d.notes
	return f, nil
}

const wantOutside = "want at most %d bytes outside of overrides of policies. Each override there begins a line with a dash and a space, and has no anchor"

func moreThan(bytes int) string { return fmt.Sprintf("more than %d bytes", bytes) }

func tooLarge(name string, most int, want string) error {
	return Errors{{File: name, Line: 1, Column: 1, Value: moreThan(most), Want: fmt.Sprintf(want, most)}}
}

// decode reads the text of a file without its blocks.
func decode(name string, text []byte, blocks blocks, readTable func(string) ([]byte, error)) (*File, *decoder) {
	d := &decoder{read: readTable, blocks: blocks, Document: strict.Parse(name, text, strict.Config{
		MaxSize: maxOutside, Empty: "want policies, store, gateway or another section, got an empty file",
	})}
	f := &File{Name: name}
	if root := d.Root(); root.There() {
		d.file(root, f)
	} else {
		d.broken = len(blocks) > 0
	}
	return f, d
}

func (d *decoder) file(root strict.Node, f *File) {
	m := d.mapping(place{root, "", grammar.File})
	f.Store = d.store(m.at("store"))
	d.failover(m.at("failover"), &f.Failover)
	f.Shares = d.readShares(m.at("shares"))
	d.shares = f.Shares
	f.Regions = d.readRegions(m.at("regions"))
	d.regions = f.Regions
	d.gateway(m.at("gateway"), &f.Gateway)
	f.System = d.system(m.at("system"))
	d.http(m.at("http"), &f.HTTP)
	d.grpc(m.at("grpc"), &f.GRPC)
	d.listener(m.at("resp"), &f.RESP)
	d.admin(m.at("admin"), &f.Admin)
	d.prices = d.readPrices(m.at("prices"))
	d.pricesFailed = m.at("prices").there() && d.prices == nil
	if f.Gateway.Listen == "off" {
		d.bodiless = "gateway.listen: off"
	} else if f.HTTP.Serve == "auth" {
		d.bodiless = "http.serve: auth"
	}
	f.Policies = new(policy.Set)
	if set := d.policies(m.at("policies")); set != nil {
		f.Policies = set
	}
	f.Policies = d.exempt(m, f.Policies)
	f.Functions = d.functions(m.at("functions"))
}
