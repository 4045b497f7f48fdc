package weirfile

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A File is what a policy file says. What the file does not mention is zero: the
// defaults are those of the program.
type File struct {
	// Name is the name the file was read under.
	Name string

	// Store is where state lives: "memory", or a URL of the scheme redis, rediss,
	// redis+sentinel or redis+cluster; "" if not said. It may hold a password.
	Store string

	Gateway Gateway
	HTTP    Door
	Admin   Door

	// Policies are the policies in the order of the file; empty, not nil, if the file
	// has none.
	Policies *policy.Set
}

// A Door is where one protocol listens.
type Door struct {
	// Listen is host:port, with either part possibly empty; "" if not said.
	Listen string
}

// A Gateway is the reverse proxy.
type Gateway struct {
	// Listen is host:port; "" if not said.
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

	// Path is a path that begins with a slash and does not end in one but for "/"
	// itself. It stands for itself and all below it.
	Path string

	// Upstream is an http or https URL with a host and without query and fragment.
	Upstream *url.URL

	// Timeout is how long to wait for the headers of the upstream's response; zero if
	// not said.
	Timeout time.Duration
}

var _ netip.Prefix

// Load reads the file at path. It fails as Parse does, or if the file cannot be read.
func Load(path string) (*File, error) { return nil, nil }

// Parse reads data, which was found under name. An error is Errors: every fault, in
// the order of the file.
func Parse(name string, data []byte) (*File, error) { return nil, nil }
