package policy

import (
	"net/textproto"
	"strings"

	"github.com/floodweir/weir"
)

// A Policy is a Config that was found to be good. It is immutable and safe for
// concurrent use.
type Policy struct {
	config    Config
	methods   []string // upper case
	hosts     []hostPattern
	routes    []route
	headers   []headerMatch
	parts     []part
	overrides map[string][]weir.Limit // by key
	most      int                     // the largest number of limits of a key
}

type headerMatch struct {
	name   string // canonical
	values []string
}

// New makes a policy. An error is Errors, which wrap weir.ErrInvalid: all faults at
// once, each with the policy, the field, its value and what would be accepted.
func New(c Config) (*Policy, error) {
	p := &Policy{config: c}
	p.config.setDefaults()
	f := &faults{policy: c.Name}
	p.compile(f)
	if len(f.errs) > 0 {
		return nil, f.errs
	}
	return p, nil
}

func (c *Config) setDefaults() {
	if c.Cost == 0 {
		c.Cost = 1
	}
	if c.OnStoreError == "" {
		c.OnStoreError = Open
	}
	if c.Mode == "" {
		c.Mode = Enforce
	}
	c.OnDenied.setDefaults()
}

// Name is the name of the policy.
func (p *Policy) Name() string { return p.config.Name }

// Config describes p with every default filled in. The caller does not change what
// it holds.
func (p *Policy) Config() Config { return p.config }

// match reports whether p is about a request, and fills s in as far as the key needs
// it.
func (p *Policy) match(s *source, paths *readings) bool {
	if len(p.methods) > 0 && !p.matchMethod(s.a.Method()) {
		return false
	}
	if len(p.hosts) > 0 && !p.matchHost(s.host) {
		return false
	}
	s.pattern = ""
	if len(p.routes) > 0 {
		if s.pattern = p.matchPath(paths); s.pattern == "" {
			return false
		}
	}
	for i := range p.headers {
		if !p.headers[i].matches(s.a.Header(p.headers[i].name)) {
			return false
		}
	}
	return true
}

func (p *Policy) matchMethod(method string) bool {
	for _, m := range p.methods {
		if strings.EqualFold(m, method) || m == "GET" && strings.EqualFold(method, "HEAD") {
			return true
		}
	}
	return false
}

func (p *Policy) matchHost(host string) bool {
	for i := range p.hosts {
		if p.hosts[i].matches(host) {
			return true
		}
	}
	return false
}

// matchPath is the first pattern that matches any reading of a path, or "".
func (p *Policy) matchPath(paths *readings) string {
	for i := range p.routes {
		for _, path := range paths.text[:paths.n] {
			if p.routes[i].matches(path) {
				return p.routes[i].pattern
			}
		}
	}
	return ""
}

func (h *headerMatch) matches(lines []string) bool {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		for _, v := range h.values {
			if line == v || v == "*" && line != "" {
				return true
			}
		}
	}
	return false
}

// limits are the limits of a key.
func (p *Policy) limits(key []byte) []weir.Limit {
	if l, ok := p.overrides[string(key)]; ok {
		return l
	}
	return p.config.Limits
}

func canonical(header string) string { return textproto.CanonicalMIMEHeaderKey(header) }
