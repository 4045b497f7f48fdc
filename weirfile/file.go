package weirfile

import (
	"net/url"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// A File is what a policy file says. What the file does not mention is zero: the
// defaults are those of the program.
type File struct {
	// Name is the name that the file was read under.
	Name string

	// Store is where state lives: "memory", or a URL of the scheme redis, rediss,
	// redis+sentinel or redis+cluster; "" if not said. It may hold a password.
	Store string

	Gateway Gateway
	HTTP    HTTP
	GRPC    GRPC
	RESP    Door
	Admin   Door

	Failover Failover

	// Policies are the policies in the order of the file; none if it has none.
	Policies *policy.Set

	// Functions are what holds for functions, for [guard.Config]; nil if the file does
	// not say.
	Functions *guard.Functions

	// Notes lists fields in an old form that should be replaced, as
	// "file:line:column: note: field: what to use".
	Notes []string
}

// HTTP is the door of questions.
type HTTP struct {
	Door

	// Client says which proxies are trusted to tell about the requests that they ask
	// about at /v1/auth: http.trusted_proxies and http.client_header.
	Client httplimit.ClientAddress
}

// GRPC is the door of Envoy's rate limit protocol.
type GRPC struct {
	Door

	// Config is the directory, or the file, of the configuration that the door serves,
	// in the format of envoyproxy/ratelimit; "" if not said. What the file says is
	// relative to its own directory.
	Config string

	// OnStoreError says what the door answers when the store does not: policy.Open,
	// policy.Closed, policy.Local, or "" for an error, which leaves it to Envoy's
	// failure_mode_deny.
	OnStoreError policy.FailMode

	// ResponseHeaders adds RateLimit fields to the answers: response_headers.
	ResponseHeaders bool

	// DynamicMetadata adds the request, and the metadata of the limits that admitted it,
	// to the answers: dynamic_metadata.
	DynamicMetadata bool

	// Shadow lets everything through: shadow_mode.
	Shadow bool

	// Quota denies a request only if all of its limits do: quota_mode.
	Quota bool

	// MergeDomains lets several files have one domain: merge_domains.
	MergeDomains bool
}

// Failover says what happens when the store is slow or gone.
type Failover struct {
	// Deadline is how long a decision may take; zero if not said.
	Deadline time.Duration

	// Nodes is among how many processes a limit is divided for on_store_error: local;
	// zero if not said.
	Nodes int
}

// A Door is where one protocol is spoken.
type Door struct {
	// Listen is host:port, with the host possibly empty, or "off"; "" if not said.
	Listen string
}

// A Gateway is the reverse proxy.
type Gateway struct {
	// Listen is host:port, with the host possibly empty, or "off"; "" if not said.
	Listen string

	// Routes are in the order of the file. No two have the same Host and Path.
	Routes []Route

	// Client says how a client's address is found: trusted_proxies and
	// client_header.
	Client httplimit.ClientAddress

	// Fields are the response fields to send; zero if not said.
	Fields httplimit.Fields

	// RetryJitter is the most to add to Retry-After; zero if not said.
	RetryJitter time.Duration
}

// A Route leads to one upstream.
type Route struct {
	// Host is a host name in lower case without port, or "" for any.
	Host string

	// Path begins with a slash and does not end in one but for "/" itself. It stands
	// for itself and all below it.
	Path string

	// Upstream is an http, https or h2c URL with a host, without user, query and
	// fragment.
	Upstream *url.URL

	// Timeout is how long to wait for the headers of the upstream's response; zero if
	// not said.
	Timeout time.Duration
}

// MaxSize is the largest file, in bytes.
const MaxSize = 4 << 20

// Load reads the file at path. It fails as Parse does, or with an error of package
// os if the file cannot be read.
func Load(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads data, which was found under name. An error is Errors, which wrap
// weir.ErrInvalid: every fault, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	d := &decoder{Document: strict.Parse(name, data, strict.Config{
		MaxSize: MaxSize, Empty: "want policies, store, gateway or another section, got an empty file",
	})}
	f := &File{Name: name}
	if root := d.Root(); root.There() {
		d.file(root, f)
	}
	if errs := d.Errors(); len(errs) > 0 {
		return nil, errs.Cut()
	}
	f.Notes = d.notes
	return f, nil
}

func (d *decoder) file(root strict.Node, f *File) {
	m := d.mapping(place{root, "", grammar.File})
	f.Store = d.store(m.at("store"))
	d.failover(m.at("failover"), &f.Failover)
	d.gateway(m.at("gateway"), &f.Gateway)
	d.http(m.at("http"), &f.HTTP)
	d.grpc(m.at("grpc"), &f.GRPC)
	d.door(m.at("resp"), &f.RESP)
	d.door(m.at("admin"), &f.Admin)
	f.Policies = new(policy.Set)
	if set := d.policies(m.at("policies")); set != nil {
		f.Policies = set
	}
	f.Functions = d.functions(m.at("functions"))
}
