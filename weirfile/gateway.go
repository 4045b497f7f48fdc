package weirfile

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/weirfile/strict"
)

func (d *decoder) gateway(p place, g *Gateway) {
	if !p.there() {
		return
	}
	m := d.mapping(p)
	g.Listen = d.listen(m.at("listen"))
	d.routes(m.at("routes"), g)
	d.client(m, &g.Client)
	g.Fields = d.fields(m.at("headers"))
	g.RetryJitter = d.duration(m.at("retry_jitter"))
	g.KeyBody = httplimit.BodyLimit{Max: d.integer(m.at("key_body")), Timeout: d.duration(m.at("key_body_timeout"))}
}

func (d *decoder) fields(p place) httplimit.Fields {
	var names []string
	for _, e := range d.elements(p) {
		if s, ok := d.word(e); ok {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		return 0
	}
	f, err := httplimit.ParseFields(names...)
	if err != nil {
		d.failIn(p, strict.Quoted(strings.Join(names, ", ")), "%s", p.shape.Want)
	}
	return f
}

func (d *decoder) routes(p place, g *Gateway) {
	places := map[[2]string]strict.Node{}
	for _, e := range d.elements(p) {
		before := len(d.Faults())
		r := d.route(e)
		if len(d.Faults()) > before {
			continue
		}
		if first := places[[2]string{r.Host, r.Path}]; first.There() {
			d.failIn(e, strict.Quoted(r.Host+r.Path), "want one route for a host and path: it stands at %s:%d:%d already", d.Name(), first.Line(), first.Column())
		}
		places[[2]string{r.Host, r.Path}] = e.node
		g.Routes = append(g.Routes, r)
	}
}

func (d *decoder) route(p place) Route {
	m := d.mapping(p)
	return Route{
		Path: d.routePath(m.at("path")), Host: d.routeHost(m.at("host")),
		Upstream: d.upstream(m.at("upstream")), Timeout: d.duration(m.at("timeout")),
		Protections: d.settings(m),
	}
}

func (d *decoder) routeHost(p place) string {
	s, ok := d.text(p)
	if !ok {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(s), ".")
	if host == "" || host[0] == '.' || strings.HasSuffix(host, ".") || strings.Contains(host, "..") || strings.ContainsAny(host, ":/@?#*[] \t\n\r") || !ascii(host) {
		d.failIn(p, strict.Quoted(s), "%s", p.shape.Want)
	}
	return host
}

func (d *decoder) routePath(p place) string {
	s, ok := d.text(p)
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
		d.failIn(p, strict.Quoted(s), "%s", p.shape.Want)
		return "/"
	}
	return path
}

func (d *decoder) upstream(p place) *url.URL {
	s, ok := d.text(p)
	if !ok {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		d.failIn(p, strict.Quoted(u.Redacted()), "%s", p.shape.Want)
		return nil
	case err != nil, u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c", u.Hostname() == "",
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "", strings.HasSuffix(u.Host, ":"), !port(u.Port()):
		shown := strict.Quoted(s)
		if strings.Contains(s, "@") {
			shown = "a URL with an @ in it"
		}
		d.failIn(p, shown, "%s", p.shape.Want)
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
