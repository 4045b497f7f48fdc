package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
			s.names = append(s.names, lower(name))
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
