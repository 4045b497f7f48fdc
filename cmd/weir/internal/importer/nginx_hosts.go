package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// hostCondition returns the condition for a server name, and its form in match.hosts if
// it has one. Both are empty for a name that matches no host.
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

// hosts returns the condition for the hosts of a server.
func (n *nginx) hosts(s *nginxconf.Server, d *draft) cond {
	if s.Directive == nil || len(n.http.Servers) == 1 {
		return cond{always: true}
	}
	if len(n.http.Servers) > 1 {
		n.remark("differs: addresses and ports of servers are ignored: limits apply to the names of a server.")
	}
	if n.http.IsFirst(s) {
		return n.otherHosts(s, d)
	}
	c := cond{plain: []string{}}
	var texts []string
	for _, name := range s.Names {
		text, plain, ok := hostCondition(name)
		switch {
		case !ok:
			n.list(of(s.Directive), "server_name "+short(name), "RE2 does not support the regular expression")
			continue
		case text == "":
			continue
		}
		// Another server's exact name precedes a pattern.
		if but := n.taken(s, name); but != nil {
			text, plain = all([]string{text, not(but)}), ""
		}
		texts = append(texts, text)
		if strings.HasPrefix(name, ".") && c.plain != nil && plain == "" && len(n.taken(s, name)) == 0 {
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

// otherHosts returns the condition for all hosts that other servers do not name.
func (n *nginx) otherHosts(s *nginxconf.Server, d *draft) cond {
	var but, patterns []string
	listed := true
	for _, o := range n.http.Servers {
		for _, name := range o.Names {
			text, plain, ok := hostCondition(name)
			if !ok {
				d.differs("match", "the hosts of server_name %s (%s) are limited too: RE2 does not support the regular expression.", short(name), of(o.Directive))
			}
			if o != s && text != "" && !slices.Contains(s.Names, name) && !slices.Contains(but, text) {
				but = append(but, text)
				switch {
				case plain != "":
					patterns = append(patterns, plain)
				case strings.HasPrefix(name, "."):
					patterns = append(patterns, name[1:], "*"+name)
				default:
					listed = false
				}
			}
		}
	}
	if !listed {
		patterns = nil
	}
	if but == nil {
		return cond{always: true}
	}
	return cond{text: not(but), but: patterns}
}

// taken returns conditions for the hosts that match a name with a wildcard but belong to
// another server.
func (n *nginx) taken(s *nginxconf.Server, name string) (conditions []string) {
	for _, host := range n.http.Taken(s, name) {
		if text, _, _ := hostCondition(host); text != "" {
			conditions = append(conditions, text)
		}
	}
	return conditions
}
