package gateway

import (
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
)

// forward sets the header fields that describe the client to the upstream. From a trusted
// proxy it keeps the one field that the configuration names, and the fields that belong
// to it. The other field may hold anything, since proxies forward fields that they do not
// know. ReverseProxy has removed all of them from r.Out.
func (g *Gateway) forward(r *httputil.ProxyRequest) {
	in, out := r.In.Header, r.Out.Header
	maps.DeleteFunc(out, func(name string, _ []string) bool { return isUnderscoreSpelling(name) })
	if id := in[requestIDHeader]; g.ids && id != nil {
		out[requestIDHeader] = id // even if the client's Connection names it
	}
	trusted := g.fromTrustedProxy(r.In)
	switch {
	case !trusted:
		out.Del("X-Real-Ip")
		r.SetXForwarded()
	case strings.EqualFold(g.client.Header, "Forwarded"):
		out.Del("X-Real-Ip")
		if client := g.client.Addr(r.In); client.IsValid() {
			out.Set("X-Forwarded-For", client.String())
		}
		r.SetXForwarded()
		out["Forwarded"] = append(slices.Clone(in["Forwarded"]), "for="+node(r.In.RemoteAddr))
	default:
		out["X-Forwarded-For"] = in["X-Forwarded-For"]
		r.SetXForwarded()
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
			if v := in.Get(name); v != "" {
				out.Set(name, v)
			}
		}
	}
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
