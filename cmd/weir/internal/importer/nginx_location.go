package importer

import (
	"regexp"
	"strings"
)

// The kinds of a location. The zero kind is a server itself: what no location takes.
type kind int

const (
	rest   kind = iota
	prefix      // location /x
	firm        // location ^~ /x: a prefix that no regular expression overrules
	exact       // location = /x
	expr        // location ~ x, ~* x
	named       // location @x
)

// A location is which paths a location block is about.
type location struct {
	kind    kind
	pattern string
	around  *location
	order   int // among those of its server

	re *regexp.Regexp // of an expr; nil if Go does not know it
}

func newLocation(d *directive, around *location) (*location, error) {
	l := &location{around: around}
	var modifier string
	switch len(d.args) {
	case 2:
		modifier, l.pattern = d.args[0], d.args[1]
	case 1:
		l.pattern = d.args[0]
		for _, m := range []string{"=", "^~", "~*", "~"} {
			if rest, ok := strings.CutPrefix(l.pattern, m); ok {
				modifier, l.pattern = m, rest
				break
			}
		}
	default:
		return nil, d.errorf("want location [= | ~ | ~* | ^~] PATTERN")
	}
	switch modifier {
	case "=":
		l.kind = exact
	case "^~":
		l.kind = firm
	case "~", "~*":
		l.kind = expr
		l.re, _ = regexp.Compile("(?i)" + l.pattern)
	case "":
		if l.kind = prefix; strings.HasPrefix(l.pattern, "@") {
			l.kind = named
		}
	default:
		return nil, d.errorf("%q: want =, ~, ~* or ^~", modifier)
	}
	return l, nil
}

// String is the location as it stands in the file.
func (l *location) String() string {
	modifier := map[kind]string{exact: "= ", firm: "^~ ", expr: "~ "}[l.kind]
	return short("location " + modifier + l.pattern)
}

// folded is the pattern as a path is compared: in lower case.
func (l *location) folded() string { return lower(l.pattern) }

// condition is the location in an expression; "" is all paths.
func (l *location) condition() string {
	var own string
	switch path := l.folded(); {
	case l.kind == rest || (l.kind == prefix || l.kind == firm) && path == "/":
	case l.kind == exact:
		if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
			path = trimmed
		}
		own = "request.path == " + cel(path)
	case l.kind == expr:
		own = "request.path.matches(" + cel("(?i)"+l.pattern) + ")"
	case strings.HasSuffix(path, "/"):
		own = `(request.path + "/").startsWith(` + cel(path) + ")"
	default:
		own = "request.path.startsWith(" + cel(path) + ")"
	}
	if l.around == nil || l.around.kind != expr {
		return own
	}
	outer := l.around.condition()
	if own == "" {
		return outer
	}
	return all([]string{outer, own})
}

// path is the location as a pattern of match.paths, if it is one.
func (l *location) path() (string, bool) {
	if strings.ContainsAny(l.pattern, "%;?#\\*{}") || !strings.HasPrefix(l.pattern, "/") || l.around != nil && l.around.kind == expr {
		return "", false
	}
	switch {
	case l.kind == exact && (l.pattern == "/" || !strings.HasSuffix(l.pattern, "/")):
		return l.pattern, true
	case l.kind == exact:
		return strings.TrimRight(l.pattern, "/"), true
	case l.kind == prefix || l.kind == firm:
		return l.pattern + "*", strings.HasSuffix(l.pattern, "/")
	}
	return "", false
}

// within reports whether all paths of l are paths of a prefix.
func (l *location) within(p *location) bool {
	switch p.kind {
	case rest:
		return true
	case prefix, firm:
		return p.pattern == "/" || l.kind != expr && l.kind != rest && strings.HasPrefix(l.folded(), p.folded())
	}
	return false
}

// disjoint reports whether it is certain that no path fits both.
func (l *location) disjoint(o *location) bool {
	if l.kind == expr || o.kind == expr {
		if l.kind == expr {
			l, o = o, l
		}
		return l.kind == exact && o.re != nil && !o.re.MatchString(l.pattern)
	}
	return l.folded() != o.folded() && !l.within(o) && !o.within(l)
}

// overrules reports whether nginx takes l, and not o, for a path that fits both, and
// there may be such a path.
func (l *location) overrules(o *location) bool {
	for a := l.around; a != nil; a = a.around {
		if a == o {
			return true
		}
	}
	if l.kind == rest || l.kind == named || o.kind == exact || o.kind == named || l == o {
		return false
	}
	for a := o.around; a != nil; a = a.around {
		if a == l {
			return false
		}
	}
	switch {
	case o.kind == rest:
		return true
	case l.kind == exact && o.kind == expr:
		return o.re == nil || o.re.MatchString(l.pattern)
	case l.kind == exact:
		return l.within(o)
	case l.kind == expr && o.kind == expr:
		return l.order < o.order
	case l.kind == expr:
		return o.kind == prefix
	case o.kind == expr:
		return l.kind == firm
	}
	return l.within(o) && len(l.pattern) > len(o.pattern)
}
