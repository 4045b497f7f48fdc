package gateway

import (
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
	trusted := g.trusts(r.In)
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
