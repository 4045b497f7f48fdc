package nginxconf

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Server is a server block.
type Server struct {
	Directive *Directive // nil if there is none
	Names     []string   // in lower case, as they stand there
	Answers   bool       // all requests by return, before there are limits
	// Scopes lists the server itself and its locations, each before those within it. A
	// server that answers has none.
	Scopes []*Scope

	listens []string
	first   bool // the one for hosts that no server names
}

func newServer(d *Directive) *Server {
	s := &Server{Directive: d}
	for _, c := range Find(d.Block, "server_name") {
		for _, name := range c.Args {
			s.Names = append(s.Names, lower(name))
		}
	}
	for _, c := range Find(d.Block, "listen") {
		if len(c.Args) > 0 {
			s.listens = append(s.listens, strings.ToLower(c.Args[0]))
			s.first = s.first || slices.Contains(c.Args[1:], "default_server") || slices.Contains(c.Args[1:], "default")
		}
	}
	if s.listens == nil {
		s.listens = []string{"80"}
	}
	return s
}

// Name returns the value of $server_name.
func (s *Server) Name() string {
	if len(s.Names) == 0 {
		return ""
	}
	return s.Names[0]
}

// IsFirst reports whether s is the default server of one of its addresses.
func (h *HTTP) IsFirst(s *Server) bool {
	if s.first {
		return true
	}
	for _, address := range s.listens {
		taken := false
		for _, o := range h.Servers {
			if o == s {
				break
			}
			taken = taken || slices.Contains(o.listens, address)
		}
		for _, o := range h.Servers {
			taken = taken || o != s && o.first && slices.Contains(o.listens, address)
		}
		if !taken {
			return true
		}
	}
	return false
}

// Taken returns the hosts that match a name of s with a gap (*.x, x.*, .x, ~x) but
// belong to another server, which names them exactly.
func (h *HTTP) Taken(s *Server, name string) (hosts []string) {
	if !strings.Contains(name, "*") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "~") {
		return nil
	}
	for _, o := range h.Servers {
		for _, host := range o.Names {
			whole := host != "" && host[0] != '.' && !strings.ContainsAny(host, "*~")
			if o != s && whole && !slices.Contains(s.Names, host) && !slices.Contains(hosts, host) && fits(name, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// fits reports whether a host matches a server name with a gap.
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

// lower returns a text in lower case. An invalid text is unchanged.
func lower(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return strings.ToLower(s)
}
