package importer

import (
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// A cond is the condition of a policy on paths or hosts.
type cond struct {
	always, never bool
	plain         []string // as a list of patterns; nil if that is not possible
	but           []string // all requests but these patterns; nil if that is not possible
	text          string   // as an expression
}

// A term is the paths of one scope with a limit.
type term struct {
	*nginxconf.Scope
	but []*nginxconf.Scope // scopes without the limit that take precedence
}

// covers reports whether all paths of o are paths of t with the limit.
func (t term) covers(o term) bool {
	return o.Within(t.Location) && !slices.ContainsFunc(t.but, func(b *nginxconf.Scope) bool { return !b.Disjoint(o.Location) })
}

// terms returns the scopes of a server with the limit of a group, without those that
// others cover and those that cannot be expressed.
func (n *nginx) terms(s *nginxconf.Server, g *group) []term {
	var terms, kept []term
	for _, o := range s.Scopes {
		if !g.scopes[o] {
			continue
		}
		t := term{Scope: o}
		for _, other := range s.Scopes {
			if !g.scopes[other] && other.Overrules(o.Location) && !(n.answering && other.Answers) {
				t.but = append(t.but, other)
			}
		}
		terms = append(terms, t)
	}
	for i, t := range terms {
		covered := false
		for j, o := range terms {
			covered = covered || i != j && o.covers(t) && (!t.covers(o) || j < i)
		}
		switch {
		case covered:
		case unknown(t.Scope):
			n.list(of(t.Directive), g.use.Directive.String(), "RE2 does not support the regular expression %s", t.Location)
		default:
			kept = append(kept, t)
		}
	}
	return kept
}

// unknown reports whether o is a regular expression that cannot be expressed.
func unknown(o *nginxconf.Scope) bool { return o.Kind == nginxconf.Expr && o.Re == nil }

// exclusions returns the conditions of the scopes of t.but, and the patterns of all of them if
// they have them. If all is true, they exclude every request of t.
func (t term) exclusions(d *draft) (but, patterns []string, all bool) {
	listed := true
	for _, b := range t.but {
		// A scope within another one is excluded with it.
		inner := func(o *nginxconf.Scope) bool {
			return o != b && o.Kind != nginxconf.Expr && b.Within(o.Location) && !o.Within(b.Location)
		}
		switch {
		case unknown(b):
			d.differs("match", "the paths of %s (%s) are limited too: RE2 does not support the regular expression.", b.Location, of(b.Directive))
		case condition(b.Location) == "":
			all = true
		case slices.ContainsFunc(t.but, inner):
		default:
			but = append(but, condition(b.Location))
			p, ok := pathPatterns(b.Location)
			patterns, listed = append(patterns, p...), listed && ok
		}
	}
	if !listed {
		patterns = nil
	}
	return but, patterns, all
}

// paths returns the condition for the paths of a server with the limit of a group.
func (n *nginx) paths(s *nginxconf.Server, g *group, d *draft) cond {
	c := cond{never: true, plain: []string{}}
	var texts []string
	for _, t := range n.terms(s, g) {
		but, patterns, whole := t.exclusions(d)
		if whole {
			continue
		}
		c.never = false
		text := condition(t.Location)
		if but != nil {
			exclusion := not(but)
			if text == "" {
				text, c.but = exclusion, patterns
			} else {
				text = all([]string{text, exclusion})
			}
			c.plain = nil
		}
		if text == "" {
			return cond{always: true}
		}
		texts = append(texts, text)
		if p, ok := pathPatterns(t.Location); ok && c.plain != nil {
			for _, one := range p {
				if !slices.Contains(c.plain, one) {
					c.plain = append(c.plain, one)
				}
			}
		} else {
			c.plain = nil
		}
	}
	if len(texts) != 1 {
		c.but = nil
	}
	if !c.never {
		c.text = either(texts)
	}
	return c
}
