package importer

import "slices"

// A cond is which paths, or hosts, a policy is about.
type cond struct {
	always, never bool
	plain         []string // as a list of patterns, if it can be one
	text          string   // as an expression
}

// paths is which paths of a server have the limit of a group.
func (n *nginx) paths(s *server, g *group, d *draft) cond {
	type term struct {
		*scope
		but []*scope // stronger ones without the limit
	}
	var terms []term
	for _, o := range s.scopes {
		if !g.scopes[o] {
			continue
		}
		t := term{scope: o}
		for _, other := range s.scopes {
			if !g.scopes[other] && other.overrules(o.location) {
				t.but = append(t.but, other)
			}
		}
		terms = append(terms, t)
	}
	covers := func(a, b term) bool {
		return b.within(a.location) && !slices.ContainsFunc(a.but, func(o *scope) bool { return !o.disjoint(b.location) })
	}
	var kept []term
	for i, t := range terms {
		covered := false
		for j, o := range terms {
			covered = covered || i != j && covers(o, t) && (!covers(t, o) || j < i)
		}
		switch {
		case covered:
		case t.kind == expr && t.re == nil:
			n.list(t.at, g.use.String(), "%s is a regular expression that RE2 does not know", t.location)
		default:
			kept = append(kept, t)
		}
	}
	c := cond{never: true, plain: []string{}}
	var texts []string
	for _, t := range kept {
		text := t.condition()
		var but []string
		whole := false
		for _, b := range t.but {
			switch {
			case b.kind == expr && b.re == nil:
				d.differs("match", "the paths of %s (%s) are limited too: RE2 does not know the regular expression.", b.location, b.at)
			case b.condition() == "":
				whole = true
			case slices.ContainsFunc(t.but, func(o *scope) bool { return o != b && o.kind != expr && b.within(o.location) && !o.within(b.location) }):
			default:
				but = append(but, b.condition())
			}
		}
		if whole {
			continue
		}
		c.never = false
		if but != nil {
			exclusion := not(but)
			if text == "" {
				text = exclusion
			} else {
				text = all([]string{text, exclusion})
			}
			c.plain = nil
		}
		if text == "" {
			return cond{always: true}
		}
		texts = append(texts, text)
		if p, ok := t.path(); ok && c.plain != nil {
			c.plain = append(c.plain, p)
		} else {
			c.plain = nil
		}
	}
	if !c.never {
		c.text = either(texts)
	}
	return c
}

// where says which requests a group is about, and reports whether there are any.
func (n *nginx) where(d *draft, g *group) bool {
	type part struct{ host, path cond }
	var parts []part
	same := true
	for _, s := range n.servers {
		if !slices.ContainsFunc(s.scopes, func(o *scope) bool { return g.scopes[o] }) {
			continue
		}
		p := part{n.hosts(s, d), n.paths(s, g, d)}
		if p.path.never || p.host.never {
			continue
		}
		parts = append(parts, p)
		same = same && p.path.always == parts[0].path.always && p.path.text == parts[0].path.text
	}
	if len(parts) == 0 {
		return false
	}
	if !same {
		var texts []string
		for _, p := range parts {
			var both []string
			for _, c := range []cond{p.host, p.path} {
				if !c.always {
					both = append(both, c.text)
				}
			}
			if both == nil {
				return true // all requests of all hosts
			}
			texts = append(texts, all(both))
		}
		d.where = append(d.where, either(texts))
		return true
	}
	if path := parts[0].path; path.plain != nil {
		d.paths = path.plain
	} else if !path.always {
		d.where = append(d.where, path.text)
	}
	var hosts []string
	var texts []string
	for _, p := range parts {
		if p.host.always {
			return true
		}
		texts = append(texts, p.host.text)
		if p.host.plain == nil {
			hosts = nil
			continue
		}
		for _, h := range p.host.plain {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.host.plain == nil }) {
		d.where = append(d.where, either(texts))
	} else {
		d.hosts = hosts
	}
	return true
}
