package weirfile

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/redisstore"
)

// store reads where state lives. A URL may hold a password, so errors do not quote
// one with an @ or its parameters.
func (d *decoder) store(n *node, field string) string {
	const want = "want memory, or redis://HOST:PORT, rediss://…, redis+sentinel://… or redis+cluster://HOST:PORT,HOST:PORT"
	s, ok := d.text(n, field, want)
	if !ok || s == "memory" {
		return s
	}
	// Its parameters may name files of certificates, which nobody opens here.
	address, _, _ := strings.Cut(s, "?")
	if _, err := redisstore.ParseURL(address); err == nil && !strings.ContainsAny(s, " \t\n\r") {
		return s
	}
	scheme, _, isURL := strings.Cut(s, "://")
	shown := quoted(address)
	if strings.Contains(s, "@") {
		shown = quoted(scheme+"://") + "…"
		if !isURL {
			shown = "a text with an @ in it"
		}
	}
	d.fail(n, field, shown, want)
	return ""
}

// listen reads where a door listens.
func (d *decoder) listen(n *node, field string) string {
	const want = "want HOST:PORT such as 127.0.0.1:8000, :8000 for all addresses, or off"
	s, ok := d.text(n, field, want)
	if !ok || s == "off" {
		return s
	}
	host, port, err := net.SplitHostPort(s)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strconv.FormatUint(number, 10) != port || strings.ContainsAny(host, " \t\n\r/@?#") {
		d.fail(n, field, quoted(s), want)
		return ""
	}
	return s
}

func (d *decoder) gateway(n *node, g *Gateway) {
	m := d.mapping(n, "gateway", "listen", "routes", "trusted_proxies", "client_header", "headers", "retry_jitter")
	if n := m.get("listen"); n != nil {
		g.Listen = d.listen(n, "gateway.listen")
	}
	if n := m.get("routes"); n != nil {
		d.routes(n, g)
	}
	if n := m.get("trusted_proxies"); n != nil {
		d.trusted(n, "gateway.trusted_proxies", &g.Client)
	}
	if n := m.get("client_header"); n != nil {
		const want = "want x-forwarded-for or forwarded"
		s, ok := d.text(n, "gateway.client_header", want)
		switch {
		case !ok:
		case strings.EqualFold(s, "x-forwarded-for"):
			g.Client.Header = "X-Forwarded-For"
		case strings.EqualFold(s, "forwarded"):
			g.Client.Header = "Forwarded"
		default:
			d.fail(n, "gateway.client_header", quoted(s), want)
		}
		if m.get("trusted_proxies") == nil && ok {
			d.fail(n, "gateway.client_header", quoted(s), "want gateway.trusted_proxies with it: the header of anybody else is not read")
		}
	}
	if n := m.get("headers"); n != nil {
		g.Fields = d.fields(n, "gateway.headers")
	}
	if n := m.get("retry_jitter"); n != nil {
		g.RetryJitter = d.duration(n, "gateway.retry_jitter", 0, time.Hour)
	}
}

func (d *decoder) fields(n *node, field string) httplimit.Fields {
	const want = "want off, or any of legacy and one draft (draft-03, draft-06, draft-07 or draft-08)"
	var names []string
	for i, e := range d.elements(n, field, want, true) {
		at := element(field, i)
		s, ok := d.text(e, at, want)
		if !ok {
			continue
		}
		if _, err := httplimit.ParseFields(s); err != nil {
			d.fail(e, at, quoted(s), want)
			continue
		}
		names = append(names, s)
	}
	f, err := httplimit.ParseFields(names...)
	if err != nil {
		d.fail(n, field, quoted(strings.Join(names, ", ")), want)
	}
	if len(names) == 0 {
		return 0
	}
	return f
}

// element is the name of the i-th element of a list. A value that stands for a list
// is its first element.
func element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

func (d *decoder) trusted(n *node, field string, c *httplimit.ClientAddress) {
	const want = "want an address, a prefix such as 10.0.0.0/8, or unix for a proxy on a Unix socket"
	for i, e := range d.elements(n, field, want, true) {
		at := element(field, i)
		s, ok := d.text(e, at, want)
		if !ok {
			continue
		}
		if s == "unix" {
			c.TrustUnix = true
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil || a.Zone() != "" {
				d.fail(e, at, quoted(s), want)
				continue
			}
			p = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		if p.Addr().Is4In6() {
			d.fail(e, at, quoted(s), "want the prefix as IPv4")
			continue
		}
		if p != p.Masked() {
			d.fail(e, at, quoted(s), "want a prefix without bits beyond its length: %s", p.Masked())
			continue
		}
		c.Trusted = append(c.Trusted, p)
	}
}

func (d *decoder) routes(n *node, g *Gateway) {
	places := map[[2]string]*node{}
	for i, e := range d.elements(n, "gateway.routes", "want a list of routes such as { path: /, upstream: http://127.0.0.1:3000 }", false) {
		field := fmt.Sprintf("gateway.routes[%d]", i)
		before := len(d.errs)
		r, at := d.route(e, field)
		if len(d.errs) > before {
			continue
		}
		if first := places[[2]string{r.Host, r.Path}]; first != nil {
			d.fail(at, field, quoted(r.Host+r.Path), "want one route for a host and path: it stands at %s:%d:%d already", d.name, first.Line, first.Column)
		}
		places[[2]string{r.Host, r.Path}] = at
		g.Routes = append(g.Routes, r)
	}
}

func (d *decoder) route(n *node, field string) (Route, *node) {
	r := Route{Path: "/"}
	m := d.mapping(n, field, "path", "host", "upstream", "timeout")
	if n := m.get("path"); n != nil {
		r.Path = d.routePath(n, field+".path")
	}
	if n := m.get("host"); n != nil {
		const want = "want a host name such as api.example.com, without a port"
		s, ok := d.text(n, field+".host", want)
		r.Host = strings.TrimSuffix(strings.ToLower(s), ".")
		if ok && (r.Host == "" || r.Host[0] == '.' || strings.HasSuffix(r.Host, ".") || strings.Contains(r.Host, "..") || strings.ContainsAny(r.Host, ":/@?#*[] \t\n\r") || !ascii(r.Host)) {
			d.fail(n, field+".host", quoted(s), want)
		}
	}
	if n := m.get("upstream"); n != nil {
		r.Upstream = d.upstream(n, field+".upstream")
	} else if m.node.Kind == yaml.MappingNode {
		d.fail(m.node, field+".upstream", "", wantUpstream)
	}
	if n := m.get("timeout"); n != nil {
		r.Timeout = d.duration(n, field+".timeout", time.Millisecond, 24*time.Hour)
	}
	return r, n
}

func (d *decoder) routePath(n *node, field string) string {
	const want = "want a path such as /api, which stands for all below it too"
	s, ok := d.text(n, field, want)
	if !ok {
		return "/"
	}
	path := strings.TrimSuffix(s, "/")
	if path == "" {
		return "/"
	}
	bad := s[0] != '/' || strings.ContainsAny(s, "*{}?#%;\\ \t\n\r")
	for segment := range strings.SplitSeq(path[1:], "/") {
		bad = bad || segment == "" || segment == "." || segment == ".."
	}
	if bad {
		d.fail(n, field, quoted(s), want)
		return "/"
	}
	return path
}

const wantUpstream = "want a URL such as http://127.0.0.1:3000, of the scheme http, https or h2c, without user, query and fragment"

func (d *decoder) upstream(n *node, field string) *url.URL {
	s, ok := d.text(n, field, wantUpstream)
	if !ok {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		d.fail(n, field, quoted(u.Redacted()), wantUpstream)
		return nil
	case err != nil, u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c", u.Hostname() == "",
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "", strings.HasSuffix(u.Host, ":"), !port(u.Port()):
		shown := quoted(s)
		if strings.Contains(s, "@") {
			shown = "a URL with an @ in it"
		}
		d.fail(n, field, shown, wantUpstream)
		return nil
	}
	return u
}

func port(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
