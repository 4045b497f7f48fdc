package gateway

import (
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
)

// forward tells the upstream for whom it is asked. A trusted proxy is believed in
// the one header that the configuration names, and what comes with it; the other
// one may hold anything, since a proxy passes on what it does not know.
// ReverseProxy has removed all of them from r.Out.
func (g *Gateway) forward(r *httputil.ProxyRequest) {
	in, out := r.In.Header, r.Out.Header
	maps.DeleteFunc(out, func(name string, _ []string) bool { return isUnderscoreSpelling(name) })
	if id := in[requestIDHeader]; g.ids && id != nil {
		out[requestIDHeader] = id // whatever the client's Connection names
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

// disguised reports whether name is one of the fields by which proxies speak of a
// client, spelled with underscores: servers that hand fields on as environment
// variables do not tell the two apart.
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

// node is a peer as RFC 7239 writes it.
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
