package importer

import (
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// A part is the requests of a group to one server.
type part struct{ host, path cond }

// parts returns the servers with the limit of a group.
func (n *nginx) parts(d *draft, g *group) (parts []part) {
	for _, s := range n.http.Servers {
		if !slices.ContainsFunc(s.Scopes, func(o *nginxconf.Scope) bool { return g.scopes[o] }) {
			continue
		}
		p := part{n.hosts(s, d), n.paths(s, g, d)}
		if !p.path.never && !p.host.never {
			parts = append(parts, p)
		}
	}
	return parts
}

// where sets the conditions of a group. It reports whether any request matches.
func (n *nginx) where(d *draft, g *group) bool {
	parts := n.parts(d, g)
	if len(parts) == 0 {
		return false
	}
	first := parts[0].path
	if slices.ContainsFunc(parts, func(p part) bool { return p.path.always != first.always || p.path.text != first.text }) {
		d.hostsAndPaths(parts)
		return true
	}
	switch {
	case first.plain != nil:
		d.paths = first.plain
	case first.but != nil:
		d.except = append(d.except, exception{"paths", first.but})
	case !first.always:
		d.where = append(d.where, first.text)
	}
	d.anyHost(parts)
	return true
}

// hostsAndPaths adds one condition for parts with different hosts and paths: any pair of them.
func (d *draft) hostsAndPaths(parts []part) {
	var texts []string
	for _, p := range parts {
		var both []string
		for _, c := range []cond{p.host, p.path} {
			if !c.always {
				both = append(both, c.text)
			}
		}
		if both == nil {
			return // all requests of all hosts
		}
		texts = append(texts, all(both))
	}
	d.where = append(d.where, either(texts))
}

// anyHost adds the hosts of parts, as a list if possible.
func (d *draft) anyHost(parts []part) {
	if slices.ContainsFunc(parts, func(p part) bool { return p.host.always }) {
		return
	}
	var hosts, texts []string
	isList := true
	for _, p := range parts {
		if !slices.Contains(texts, p.host.text) {
			texts = append(texts, p.host.text)
		}
		isList = isList && p.host.plain != nil
		for _, h := range p.host.plain {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	switch {
	case isList:
		d.hosts = hosts
	case len(texts) == 1 && parts[0].host.but != nil:
		d.except = append(d.except, exception{"hosts", parts[0].host.but})
	default:
		d.where = append(d.where, either(texts))
	}
}
