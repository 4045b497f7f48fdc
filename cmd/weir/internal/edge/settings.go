package edge

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/redisstore"
)

// Input is what the configuration of nginx is made of, beside the policies.
type Input struct {
	// Store is the URL of a Redis, alone or with sentinels.
	Store string

	// Deadline is how long a question may take.
	Deadline time.Duration

	// Fields are the response fields; those that are usual if zero.
	Fields httplimit.Fields

	// Jitter is the most that is added to Retry-After.
	Jitter time.Duration

	// Follow takes published policies in place of those of the file.
	Follow bool

	// Client says which proxies are trusted to tell whose a request is.
	Client httplimit.ClientAddress

	// File is what the policies were read from, and Lua the directory of the Lua.
	File, Lua string

	// Init and InitWorker are files of Lua that is not Weir's, to be run before it in
	// init_by_lua and init_worker_by_lua, which may stand there once; none if empty.
	Init, InitWorker string
}

// DefaultLua is the Lua of an Input that names none.
const DefaultLua = "/etc/nginx/weir"

// authorities is where Debian has the certificates of those that all trust.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// settings are the Settings of in, and the file of certificates that the store's is
// checked with; "" for none.
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
	if in.Store == "" || in.Store == "memory" {
		f.Add("store", in.Store, "nginx shares the limits with Weir in a Redis: want its URL, as --store, WEIR_STORE or store in the file")
		return r, ""
	}
	a, err := redisstore.ParseURL(in.Store)
	if err != nil {
		f.Add("store", "", "%s", strings.TrimPrefix(err.Error(), "redisstore: url: invalid: "))
		return r, ""
	}
	if a.Topology == redisstore.Cluster {
		f.Add("store", "redis+cluster", "nginx asks one server: want redis:// or redis+sentinel://, or put the policies behind /v1/auth, see docs/nginx.md")
		return r, ""
	}
	r = Redis{
		Primary: a.Primary, Username: a.Username, Password: a.Password, DB: a.DB,
		SentinelUsername: a.SentinelUsername, SentinelPassword: a.SentinelPassword,
	}
	for _, h := range a.Hosts {
		if host, port, err := net.SplitHostPort(h); err == nil && strings.EqualFold(host, "localhost") {
			h = net.JoinHostPort("127.0.0.1", port) // which nginx would ask a name server about
		}
		r.Hosts = append(r.Hosts, h)
	}
	if a.TLS == nil {
		return r, ""
	}
	r.TLS, r.Verify, r.ServerName = true, !a.TLS.InsecureSkipVerify, a.TLS.ServerName
	if len(a.TLS.Certificates) > 0 {
		f.Add("store", "cert", "nginx signs in with a password alone: want a URL without cert and key")
	}
	_, query, _ := strings.Cut(in.Store, "?")
	params, _ := url.ParseQuery(query) // ParseURL has read it
	ca = authorities
	if own := params["ca"]; len(own) > 0 {
		if ca, err = filepath.Abs(own[len(own)-1]); err != nil || !plain(ca) {
			f.Add("store", fault.Quote(ca), "want a ca whose path nginx can be told: without quotes, backslashes, dollars and control characters")
		}
	}
	return r, ca
}

// names are the hosts that nginx has to look up.
func (r *Redis) names() (names []string) {
	for _, h := range r.Hosts {
		host, _, _ := net.SplitHostPort(h)
		if _, err := netip.ParseAddr(host); err != nil {
			names = append(names, host)
		}
	}
	return names
}

// plain reports whether a path can stand in quotes in a configuration of nginx.
func plain(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"\$'`, r) })
}
