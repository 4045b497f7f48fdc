package nginxconf

import (
	"regexp"
	"strings"
)

// A Kind is the type of match of a location.
type Kind int

// The kinds of a location. The zero kind is a server itself: what no location takes.
const (
	Rest   Kind = iota
	Prefix      // location /x
	Firm        // location ^~ /x: a prefix that no regular expression overrules
	Exact       // location = /x
	Expr        // location ~ x, ~* x
	Named       // location @x
)

// A Location describes the paths of a location block.
type Location struct {
	Kind    Kind
	Pattern string
	Around  *Location      // that it stands in; nil of a server
	Re      *regexp.Regexp // of an Expr, without case; nil if RE2 does not support it

	// Less lists the locations that nginx takes instead of the prefix around an Expr,
	// whether or not the Expr matches: longer prefixes and exact ones beside that
	// prefix.
	Less []*Location

	order int // among those of its server
}

func newLocation(d *Directive, around *Location) (*Location, error) {
	l := &Location{Around: around}
	var modifier string
	switch len(d.Args) {
	case 2:
		modifier, l.Pattern = d.Args[0], d.Args[1]
	case 1:
		l.Pattern = d.Args[0]
		for _, m := range []string{"=", "^~", "~*", "~"} {
			if rest, ok := strings.CutPrefix(l.Pattern, m); ok {
				modifier, l.Pattern = m, rest
				break
			}
		}
	default:
		return nil, d.errorf("want location [= | ~ | ~* | ^~] PATTERN")
	}
	switch modifier {
	case "=":
		l.Kind = Exact
	case "^~":
		l.Kind = Firm
	case "~", "~*":
		l.Kind = Expr
		l.Re, _ = regexp.Compile("(?i)" + l.Pattern)
	case "":
		if l.Kind = Prefix; strings.HasPrefix(l.Pattern, "@") {
			l.Kind = Named
		}
	default:
		return nil, d.errorf("%q: want =, ~, ~* or ^~", modifier)
	}
	return l, nil
}

// String returns the location as written.
func (l *Location) String() string {
	modifier := map[Kind]string{Exact: "= ", Firm: "^~ ", Expr: "~ "}[l.Kind]
	return short("location " + modifier + l.Pattern)
}

// Folded returns the pattern in lower case, as paths are compared.
func (l *Location) Folded() string { return lower(l.Pattern) }

// Within reports whether all paths of l are paths of p, a prefix or a server.
func (l *Location) Within(p *Location) bool {
	switch p.Kind {
	case Rest:
		return true
	case Prefix, Firm:
		if l.Kind == Expr && l.Around != nil && l.Around.Within(p) {
			return true
		}
		return p.Pattern == "/" || l.Kind != Expr && l.Kind != Rest && strings.HasPrefix(l.Folded(), p.Folded())
	}
	return false
}

// Disjoint reports whether it is certain that no path matches both.
func (l *Location) Disjoint(o *Location) bool {
	if l.Kind == Expr || o.Kind == Expr {
		if l.Kind == Expr {
			l, o = o, l
		}
		for _, less := range o.Less {
			if l.Within(less) || l == less {
				return true
			}
		}
		return l.Kind == Exact && o.Re != nil && !o.Re.MatchString(l.Pattern)
	}
	return l.Folded() != o.Folded() && !l.Within(o) && !o.Within(l)
}

// Overrules reports whether nginx takes l, and not o, for a path that matches both, if
// there may be one. Both belong to one server. So a request takes the matching location
// that no other matching location overrules.
//
// nginx decides at each level of the file among the locations there. So the decision is
// between the two that contain l and o at the innermost common level.
func (l *Location) Overrules(o *Location) bool {
	outside, inside := part(l, o)
	switch {
	case l == o || inside == nil || l.Disjoint(o): // inside is nil if l is around o
		return false
	case outside == nil:
		return true // o is around l
	case inside.Kind == Named || outside.Kind == Named || outside.Kind == Exact:
		return false
	case inside.Kind == Exact && outside.Kind == Expr:
		return outside.Re == nil || outside.Re.MatchString(inside.Pattern)
	case inside.Kind == Exact:
		return inside.Within(outside)
	case inside.Kind == Expr && outside.Kind == Expr:
		return inside.order < outside.order
	case inside.Kind == Expr:
		return outside.Kind == Prefix && !o.settled(outside)
	case outside.Kind == Expr:
		return inside.Kind == Firm || l.settled(inside)
	}
	return inside.Within(outside) && len(inside.Pattern) > len(outside.Pattern)
}

// lessen sets Less of the locations of a server.
func lessen(scopes []*Scope) {
	for _, o := range scopes {
		if o.Kind != Expr {
			continue
		}
		for p := o.Around; p != nil; p = p.Around {
			for _, beside := range scopes {
				if beside.Around == p.Around && beside.Kind != Expr && p.Kind != Rest && beside.Overrules(p) {
					o.Less = append(o.Less, beside.Location)
				}
			}
		}
	}
}

// part returns the locations of one level that contain o and l, or are them; nil for
// one that contains the other.
func part(l, o *Location) (outside, inside *Location) {
	ls, os := l.chain(), o.chain()
	for len(ls) > 0 && len(os) > 0 && ls[0] == os[0] {
		ls, os = ls[1:], os[1:]
	}
	if len(os) > 0 {
		outside = os[0]
	}
	if len(ls) > 0 {
		inside = ls[0]
	}
	return outside, inside
}

// chain returns the server, the locations around l, and l.
func (l *Location) chain() []*Location {
	if l.Around == nil {
		return []*Location{l}
	}
	return append(l.Around.chain(), l)
}

// settled reports whether nginx stops searching outside of a prefix when it reaches l
// in it. That is the case if l, or a location around it there, is exact or a regular
// expression.
func (l *Location) settled(prefix *Location) bool {
	for ; l != prefix; l = l.Around {
		if l.Kind == Exact || l.Kind == Expr {
			return true
		}
	}
	return false
}
