package importer

import (
	"fmt"
	"regexp"
	"slices"
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
func (l *location) folded() string { return strings.ToLower(l.pattern) }

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

// A server is a server block.
type server struct {
	directive *directive
	names     []string // in lower case, as they stand there
	listens   []string
	first     bool // the one for hosts that no server names
	scopes    []*scope
}

func newServer(d *directive) *server {
	s := &server{directive: d}
	for _, c := range find(d.block, "server_name") {
		for _, name := range c.args {
			s.names = append(s.names, strings.ToLower(name))
		}
	}
	for _, c := range find(d.block, "listen") {
		if len(c.args) > 0 {
			s.listens = append(s.listens, strings.ToLower(c.args[0]))
			s.first = s.first || slices.Contains(c.args[1:], "default_server") || slices.Contains(c.args[1:], "default")
		}
	}
	if s.listens == nil {
		s.listens = []string{"80"}
	}
	return s
}

// name is what nginx has in $server_name.
func (s *server) name() string {
	if len(s.names) == 0 {
		return ""
	}
	return s.names[0]
}

// hostCondition is a name in an expression, and as an element of match.hosts if it can
// be one. Both are empty for a name that no host has.
func hostCondition(name string) (text, plain string, ok bool) {
	bare := strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".")
	switch {
	case name == "" || name == "_" || name == "localhost.invalid":
		return "", "", true
	case strings.HasPrefix(name, "~"):
		pattern := "(?i)" + strings.TrimPrefix(name, "~")
		if _, err := regexp.Compile(pattern); err != nil {
			return "", "", false
		}
		return "request.host.matches(" + cel(pattern) + ")", "", true
	case strings.HasPrefix(name, "*."):
		return "request.host.endsWith(" + cel("."+bare) + ")", name, true
	case strings.HasPrefix(name, "."):
		return fmt.Sprintf("request.host == %s || request.host.endsWith(%s)", cel(bare), cel(name)), "", true
	case strings.HasSuffix(name, ".*"):
		return "request.host.startsWith(" + cel(strings.TrimSuffix(name, "*")) + ")", "", true
	}
	return "request.host == " + cel(name), name, true
}

// hosts is which hosts a server is for.
func (n *nginx) hosts(s *server, d *draft) cond {
	if s.directive == nil || len(n.servers) == 1 {
		return cond{always: true}
	}
	if len(n.servers) > 1 {
		n.tell("differs: addresses and ports that servers listen on are not looked at: limits are for the names of a server.")
	}
	if n.isFirst(s) {
		return n.otherHosts(s, d)
	}
	c := cond{plain: []string{}}
	var texts []string
	for _, name := range s.names {
		text, plain, ok := hostCondition(name)
		switch {
		case !ok:
			n.list(s.directive.place, "server_name "+short(name), "RE2 does not know the regular expression")
			continue
		case text == "":
			continue
		}
		// Another server's whole name comes before a pattern.
		if but := n.wholeNames(s, name); but != nil {
			text, plain = all([]string{text, not(but)}), ""
		}
		texts = append(texts, text)
		if strings.HasPrefix(name, ".") && c.plain != nil && plain == "" && len(n.wholeNames(s, name)) == 0 {
			c.plain = append(c.plain, name[1:], "*"+name)
		} else if plain != "" && c.plain != nil {
			c.plain = append(c.plain, plain)
		} else {
			c.plain = nil
		}
	}
	if texts == nil {
		return cond{never: true}
	}
	c.text = either(texts)
	return c
}

// isFirst reports whether nginx takes s for hosts that no server names.
func (n *nginx) isFirst(s *server) bool {
	if s.first {
		return true
	}
	for _, address := range s.listens {
		taken := false
		for _, o := range n.servers {
			if o == s {
				break
			}
			taken = taken || slices.Contains(o.listens, address)
		}
		for _, o := range n.servers {
			taken = taken || o != s && o.first && slices.Contains(o.listens, address)
		}
		if !taken {
			return true
		}
	}
	return false
}

// otherHosts is all hosts but those that other servers name.
func (n *nginx) otherHosts(s *server, d *draft) cond {
	var but []string
	for _, o := range n.servers {
		for _, name := range o.names {
			text, _, ok := hostCondition(name)
			if !ok {
				d.differs("match", "the hosts of server_name %s (%s) are limited too: RE2 does not know the regular expression.", short(name), o.directive.place)
			}
			if o != s && text != "" && !slices.Contains(s.names, name) && !slices.Contains(but, text) {
				but = append(but, text)
			}
		}
	}
	if but == nil {
		return cond{always: true}
	}
	return cond{text: not(but)}
}

// wholeNames are the names without gaps, of other servers, that a name with one fits.
func (n *nginx) wholeNames(s *server, name string) (all []string) {
	_, _, isPattern := strings.Cut(name, "*")
	if !isPattern && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "~") {
		return nil
	}
	for _, o := range n.servers {
		for _, whole := range o.names {
			if o == s || slices.Contains(s.names, whole) || whole == "" || strings.ContainsAny(whole, "*~") || whole[0] == '.' || !fits(name, whole) {
				continue
			}
			text, _, _ := hostCondition(whole)
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// fits reports whether a host is one of a server name with a gap.
func fits(name, host string) bool {
	switch {
	case strings.HasPrefix(name, "~"):
		re, err := regexp.Compile("(?i)" + name[1:])
		return err == nil && re.MatchString(host)
	case strings.HasPrefix(name, "*."):
		return strings.HasSuffix(host, name[1:])
	case strings.HasPrefix(name, "."):
		return host == name[1:] || strings.HasSuffix(host, name)
	}
	return strings.HasPrefix(host, strings.TrimSuffix(name, "*"))
}
