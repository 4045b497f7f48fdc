package nginxconf

import (
	"regexp"
	"strings"
)

// A Kind is how a location says its paths.
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

// A Location is which paths a location block is about.
type Location struct {
	Kind    Kind
	Pattern string
	Around  *Location      // that it stands in; nil of a server
	Re      *regexp.Regexp // of an Expr, without case; nil if RE2 does not know it

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

// String is the location as it stands in the file.
func (l *Location) String() string {
	modifier := map[Kind]string{Exact: "= ", Firm: "^~ ", Expr: "~ "}[l.Kind]
	return short("location " + modifier + l.Pattern)
}

// Folded is the pattern as a path is compared: in lower case.
func (l *Location) Folded() string { return lower(l.Pattern) }

// Within reports whether all paths of l are paths of p, a prefix or a server.
func (l *Location) Within(p *Location) bool {
	switch p.Kind {
	case Rest:
		return true
	case Prefix, Firm:
		return p.Pattern == "/" || l.Kind != Expr && l.Kind != Rest && strings.HasPrefix(l.Folded(), p.Folded())
	}
	return false
}

// Disjoint reports whether it is certain that no path fits both.
func (l *Location) Disjoint(o *Location) bool {
	if l.Kind == Expr || o.Kind == Expr {
		if l.Kind == Expr {
			l, o = o, l
		}
		return l.Kind == Exact && o.Re != nil && !o.Re.MatchString(l.Pattern)
	}
	return l.Folded() != o.Folded() && !l.Within(o) && !o.Within(l)
}

// Overrules reports whether nginx takes l, and not o, for a path that fits both, and
// there may be such a path. Both are of one server. So a request takes the location
// that its path fits and that no other one it fits overrules.
func (l *Location) Overrules(o *Location) bool {
	for a := l.Around; a != nil; a = a.Around {
		if a == o {
			return true
		}
	}
	if l.Kind == Rest || l.Kind == Named || o.Kind == Exact || o.Kind == Named || l == o {
		return false
	}
	for a := o.Around; a != nil; a = a.Around {
		if a == l {
			return false
		}
	}
	switch {
	case o.Kind == Rest:
		return true
	case l.Kind == Exact && o.Kind == Expr:
		return o.Re == nil || o.Re.MatchString(l.Pattern)
	case l.Kind == Exact:
		return l.Within(o)
	case l.Kind == Expr && o.Kind == Expr:
		return l.order < o.order
	case l.Kind == Expr:
		return o.Kind == Prefix
	case o.Kind == Expr:
		return l.Kind == Firm
	}
	return l.Within(o) && len(l.Pattern) > len(o.Pattern)
}
