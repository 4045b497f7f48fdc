package policy

import (
	"net/textproto"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// A Policy is a Config that was found to be good. It is immutable and safe for
// concurrent use.
type Policy struct {
	config    Config
	bucket    string
	methods   []string // upper case
	hosts     []spelling.Host
	routes    []spelling.Path
	headers   []headerMatch
	parts     []part
	overrides map[string]int // indexes of config.Overrides, by key
	wildcards []wildcard     // in their order
	most      int            // the largest number of limits of a key
	candidate *Policy        // nil if there is none
}

type headerMatch struct {
	name   string // canonical
	field  string // as it was written
	values []string
}

// New makes a policy. An error wraps one *Error for each invalid field.
func New(c Config) (*Policy, error) {
	p := &Policy{config: c}
	p.config.setDefaults()
	if p.bucket = c.Name; c.Zone != "" {
		p.bucket = c.Zone + "~zone" // no policy has that name
	}
	f := &faults{Policy: c.Name}
	p.compile(f)
	if len(f.Errs) > 0 {
		return nil, f.Errs
	}
	if len(p.config.Candidate) > 0 {
		p.candidate = p.newCandidate()
	}
	return p, nil
}

// newCandidate is the policy that tries p's Candidate out. No policy that New makes
// has its name, so that it shares no key with one.
func (p *Policy) newCandidate() *Policy {
	c := *p
	c.overrides, c.wildcards, c.most = nil, nil, len(p.config.Candidate)
	c.config.Name += "~candidate"
	c.config.Zone, c.bucket = "", c.config.Name
	c.config.Mode, c.config.Percent = Shadow, 100
	c.config.Limits, c.config.Candidate, c.config.Overrides = p.config.Candidate, nil, nil
	return &c
}

func (c *Config) setDefaults() {
	if c.Cost == 0 {
		c.Cost = 1
	}
	if c.Count == "" {
		c.Count = CountAdmitted
	}
	if len(c.Failures) == 0 && c.Count.seesResponses() {
		c.Failures = [][2]int{{400, 599}}
	}
	if c.Percent == 0 {
		c.Percent = 100
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

// Bucket is what the keys of p begin with: its name or, of a policy in a zone, the name
// of the zone and "~zone".
func (p *Policy) Bucket() string { return p.bucket }

// Config describes p with every default filled in. The caller does not change what
// it holds.
func (p *Policy) Config() Config { return p.config }

// A miss is why a policy is not about a request. From missedHeaders on, it is the
// index of a header.
type miss int

const (
	matched miss = iota
	missedMethods
	missedHosts
	missedPaths
	missedWhere
	missedZone
	missedHeaders
)

// why is the field that a request did not fit, or "".
func (p *Policy) why(m miss) string {
	if m >= missedHeaders {
		return "match.headers." + p.headers[m-missedHeaders].field
	}
	return [...]string{"", "match.methods", "match.hosts", "match.paths", "match.where", "nginx.zone"}[m]
}

// match says whether p is about a request, and fills s in as far as the key needs it.
func (p *Policy) match(s *source) miss {
	if len(p.methods) > 0 && !p.matchMethod(s.a.Method()) {
		return missedMethods
	}
	if len(p.hosts) > 0 && !p.matchHost(s.host) {
		return missedHosts
	}
	s.pattern, s.reading, s.err = "", 0, nil
	if len(p.routes) > 0 && !p.matchPath(s) {
		return missedPaths
	}
	for i := range p.headers {
		if !p.headers[i].matches(s.a.Header(p.headers[i].name)) {
			return missedHeaders + miss(i)
		}
	}
	if p.config.Match.Where != nil && !p.holds(s) {
		return missedWhere
	}
	return matched
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
		if p.hosts[i].Matches(host) {
			return true
		}
	}
	return false
}

// matchPath keeps the first pattern that matches any reading of the path, and which.
func (p *Policy) matchPath(s *source) bool {
	for i := range p.routes {
		for j := range s.paths.N {
			if p.routes[i].Matches(s.paths.At(j)) {
				s.pattern, s.reading = p.routes[i].Pattern, j
				return true
			}
		}
	}
	return false
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

// limits are the limits of a key, and whether an override gives them. parts are its
// values, which a long key does not show.
func (p *Policy) limits(key string, parts []byte, s *source) (limits []weir.Limit, ruled bool) {
	if len(p.overrides) > 0 {
		if i, ok := p.overrides[key]; ok {
			return p.config.Overrides[i].Limits, true
		}
	}
	for i := range p.wildcards {
		if w := &p.wildcards[i]; w.fits(parts, s) {
			return p.config.Overrides[w.override].Limits, true
		}
	}
	return p.config.Limits, false
}

func canonical(header string) string { return textproto.CanonicalMIMEHeaderKey(header) }
