package gateway

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
)

// forward sets the fields of forwarded in r.Out, from which ReverseProxy has removed Forwarded and
// X-Forwarded-*.
func (g *Gateway) forward(r *httputil.ProxyRequest) {
	fields, keepRealIP := g.forwarded(r.In, nil)
	maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool {
		return isUnderscoreSpelling(name) || name == "X-Real-Ip" && !keepRealIP
	})
	for _, f := range fields {
		r.Out.Header[f.name] = f.values
	}
}

// A field is a header field.
type field struct {
	name   string
	values []string
}

// forwarded appends the header fields that describe the client to the upstream. They replace those
// of the request. From a trusted proxy it keeps the one field that the configuration
// names, and the fields that belong to it. The other field may hold anything, since proxies forward
// fields that they do not know.
func (g *Gateway) forwarded(r *http.Request, fields []field) (all []field, keepRealIP bool) {
	values := make([]string, 0, 3) // one allocation
	set := func(name, value string) {
		values = append(values, value)
		fields = append(fields, field{name, values[len(values)-1:][:1:1]})
	}
	if id := r.Header[requestIDHeader]; g.ids && id != nil {
		fields = append(fields, field{requestIDHeader, id}) // even if the client's Connection names it
	}
	var prior []string
	host, proto := r.Host, "http"
	if r.TLS != nil {
		proto = "https"
	}
	switch {
	case !g.fromTrustedProxy(r):
	case strings.EqualFold(g.client.Header, "Forwarded"):
		if client := g.client.Addr(r); client.IsValid() {
			prior = []string{client.String()}
		}
		fields = append(fields, field{"Forwarded", append(slices.Clone(r.Header["Forwarded"]), "for="+node(r.RemoteAddr))})
	default:
		keepRealIP, prior = true, r.Header["X-Forwarded-For"]
		host = cmp.Or(r.Header.Get("X-Forwarded-Host"), host)
		proto = cmp.Or(r.Header.Get("X-Forwarded-Proto"), proto)
	}
	if peer, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if len(prior) > 0 {
			peer = strings.Join(prior, ", ") + ", " + peer
		}
		set("X-Forwarded-For", peer)
	}
	set("X-Forwarded-Host", host)
	set("X-Forwarded-Proto", proto)
	return fields, keepRealIP
}

// isUnderscoreSpelling reports whether name is a forwarding field spelled with
// underscores. Servers that pass fields on as environment variables do not distinguish
// the two spellings.
func isUnderscoreSpelling(name string) bool {
	if !strings.Contains(name, "_") {
		return false
	}
	switch plain := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")); plain {
	case "Forwarded", "X-Real-Ip", requestIDHeader:
		return true
	default:
		return strings.HasPrefix(plain, "X-Forwarded-")
	}
}

// node formats a peer as in RFC 7239.
func node(peer string) string {
	p, err := netip.ParseAddrPort(peer)
	switch {
	case err != nil:
		return "unknown"
	case p.Addr().Unmap().Is6():
		return `"[` + p.Addr().WithZone("").String() + `]"`
	}
	return p.Addr().Unmap().String()
}
