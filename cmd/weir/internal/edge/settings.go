package edge

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/redisstore"
)

// Input configures nginx beside the policies.
type Input struct {
	// Store is the URL of a Redis, with or without sentinels.
	Store string

	// Deadline limits the time of a call to Redis.
	Deadline time.Duration

	// Fields selects the response fields; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// Jitter is the maximum added to Retry-After.
	Jitter time.Duration

	// Follow uses published policies in place of those of the file.
	Follow bool

	// Client configures which proxies are trusted for the client's address.
	Client httplimit.ClientAddress

	// File is the source of the policies, and Lua the directory of the Lua files.
	File, Lua string

	// Init and InitWorker are Lua files of the user, which run before Weir's Lua in
	// init_by_lua and init_worker_by_lua. nginx accepts one of each. Empty for none.
	Init, InitWorker string
}

// DefaultLua is the default of Input.Lua.
const DefaultLua = "/etc/nginx/weir"

// authorities is Debian's file of trusted certificate authorities.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// settings returns the Settings of in and the CA file for the store, "" for none.
func (in *Input) settings(f *fault.Collector) (s Settings, ca string) {
	fields := in.Fields
	if fields == 0 {
		fields = httplimit.DefaultFields
	}
	s = Settings{Format: Format, Deadline: in.Deadline.Microseconds(), Fields: strings.Fields(fields.String()), Jitter: in.Jitter.Microseconds(), Follow: in.Follow}
	if drafts := fields &^ (httplimit.Legacy | httplimit.Draft08 | httplimit.NoFields); drafts != 0 {
		f.Add("gateway.headers", drafts.String(), "nginx sends the legacy fields and those of draft-08: use legacy, draft-08 or both")
	}
	if in.Deadline < time.Millisecond {
		f.Add("failover.deadline", in.Deadline.String(), "want at least 1ms: nginx counts in milliseconds")
	}
	s.Redis, ca = in.redis(f)
	return s, ca
}

func (in *Input) redis(f *fault.Collector) (r Redis, ca string) {
	if !setup.Redis(in.Store) {
		shown, _, _ := strings.Cut(in.Store, "://")
		f.Add("store", shown, "nginx keeps state in Redis: want a URL in --store, WEIR_STORE or store in the file")
		return r, ""
	}
	a, err := redisstore.ParseURL(in.Store)
	if err != nil {
		f.Add("store", "", "%s", strings.TrimPrefix(err.Error(), "redisstore: url: invalid: "))
		return r, ""
	}
	if a.Topology == redisstore.Cluster {
		f.Add("store", "redis+cluster", "nginx does not support clusters: want redis:// or redis+sentinel://, or put the policies behind /v1/auth, see docs/nginx.md")
		return r, ""
	}
	r = Redis{
		Primary: a.Primary, Username: a.Username, Password: a.Password, DB: a.DB,
		SentinelUsername: a.SentinelUsername, SentinelPassword: a.SentinelPassword,
	}
	for _, h := range a.Hosts {
		if host, port, err := net.SplitHostPort(h); err == nil && strings.EqualFold(host, "localhost") {
			h = net.JoinHostPort("127.0.0.1", port) // nginx would query a name server for localhost
		}
		r.Hosts = append(r.Hosts, h)
	}
	if a.TLS == nil {
		return r, ""
	}
	r.TLS, r.Verify, r.ServerName = true, !a.TLS.InsecureSkipVerify, a.TLS.ServerName
	if len(a.TLS.Certificates) > 0 {
		f.Add("store", "cert", "nginx authenticates only by password: want a URL without cert and key")
	}
	_, query, _ := strings.Cut(in.Store, "?")
	params, _ := url.ParseQuery(query) // ParseURL has read it
	ca = authorities
	if own := params["ca"]; len(own) > 0 {
		if ca, err = filepath.Abs(own[len(own)-1]); err != nil || !plain(ca) {
			f.Add("store", fault.Quote(ca), "want a path without quotes, backslashes, dollars and control characters")
		}
	}
	return r, ca
}

// names returns the hosts that nginx must resolve.
func (r *Redis) names() (names []string) {
	for _, h := range r.Hosts {
		host, _, _ := net.SplitHostPort(h)
		if _, err := netip.ParseAddr(host); err != nil {
			names = append(names, host)
		}
	}
	return names
}

// plain reports whether a path can be quoted in an nginx configuration.
func plain(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"\$'`, r) })
}
