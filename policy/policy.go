package policy

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// A Policy is a validated Config. It is immutable and safe for concurrent use.
type Policy struct {
	config    Config
	bucket    string
	methods   []string // upper case
	hosts     []spelling.Host
	routes    []spelling.Path
	headers   []headerMatch
	except    []exception
	parts     []part
	overrides map[string]int // indexes of config.Overrides or config.Tenants, by key
	wildcards []wildcard     // in order
	candidate *Policy        // nil if there is none
	tenants   *tenants       // nil if there are none
}

type headerMatch struct {
	name   string // canonical
	field  string // as it was written
	values []string
}

// New returns a policy. An error wraps one *Error for each invalid field.
func New(c Config) (*Policy, error) {
	p := &Policy{config: c}
	p.config.setDefaults()
	if p.bucket = c.Name; c.Zone != "" {
		p.bucket = c.Zone + "~zone" // no policy can have this name
	}
	f := &faults{Policy: c.Name}
	p.compile(f)
	if len(f.Errs) > 0 {
		return nil, f.Errs
	}
	p.config.Limits, p.config.Candidate = named(c.Limits, c.Carry), named(c.Candidate, c.Carry)
	p.config.Overrides = slices.Clone(p.config.Overrides)
	once := map[*weir.Limit][]weir.Limit{} // overrides of a table share few slices
	for i := range p.config.Overrides {
		yield(i)
		if o := &p.config.Overrides[i]; len(o.Limits) > 0 {
			first := &o.Limits[0]
			if l, ok := once[first]; !ok || len(l) != len(o.Limits) {
				once[first] = named(o.Limits, c.Carry)
			}
			o.Limits = once[first]
		}
	}
	if len(p.config.Candidate) > 0 {
		p.candidate = p.newCandidate()
	}
	return p, nil
}

// candidateSuffix ends the name of a candidate.
const candidateSuffix = "~candidate"

// newCandidate returns the policy of the Candidate of p. Policies of New cannot have its
// name, so it shares no key with them.
func (p *Policy) newCandidate() *Policy {
	c := *p
	c.overrides, c.wildcards = nil, nil
	c.config.Name += candidateSuffix
	c.config.Zone, c.bucket = "", c.config.Name
	c.config.Mode, c.config.Percent = Shadow, 100
	c.config.Limits, c.config.Candidate, c.config.Overrides = p.config.Candidate, nil, nil
	c.config.Block, c.config.Unlimited = false, false
	return &c
}

func (c *Config) setDefaults() {
	if m := c.Settle.Meter; m != nil {
		if c.CostOf == nil {
			c.CostOf = bound{m}
		}
		c.Cost = cmp.Or(c.Cost, m.Least())
	}
	c.Cost = cmp.Or(c.Cost, 1)
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
		c.OnStoreError = Local
	}
	if c.Mode == "" {
		c.Mode = Enforce
	}
	if c.Block && len(c.Key) == 0 {
		c.Key = []KeyPart{{Source: Constant, Name: "all"}}
	}
	c.OnDenied.setDefaults()
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.config.Name }

// Bucket returns the first part of the keys of p: its name or, in a zone, the name of the
// zone and "~zone".
func (p *Policy) Bucket() string { return p.bucket }

// Config returns the configuration of p with all defaults. The caller must not modify it.
func (p *Policy) Config() Config { return p.config }

// A miss is the reason why a policy does not match. From missedHeaders on, it is the index
// of a header.
type miss int

const (
	matched miss = iota
	missedMethods
	missedHosts
	missedPaths
	missedWhere
	missedZone
	missedExcept
	missedHeaders
)

// why returns the field that does not match, or "".
func (p *Policy) why(m miss) string {
	if m >= missedHeaders {
		return "match.headers." + p.headers[m-missedHeaders].field
	}
	return [...]string{"", "match.methods", "match.hosts", "match.paths", "match.where", "nginx.zone", "except"}[m]
}

// match reports whether p matches a request. It sets the fields of s that the key needs.
func (p *Policy) match(s *source) miss {
	if len(p.methods) > 0 && !p.matchMethod(s.a.Method()) {
		return missedMethods
	}
	if len(p.hosts) > 0 && !p.matchHost(s.host) {
		return missedHosts
	}
	s.pattern, s.variant, s.err = "", 0, nil
	if len(p.routes) > 0 && !p.matchPath(s) {
		return missedPaths
	}
	for i := range p.headers {
		if !p.headers[i].matches(s.a.Header(p.headers[i].name)) {
			return missedHeaders + miss(i)
		}
	}
	if p.config.Match.Where != nil && !p.matchWhere(s) {
		return missedWhere
	}
	if len(p.except) > 0 && exempt(p.except, s) {
		return missedExcept
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

// matchPath records the first pattern that matches a variant of the path, and the variant.
func (p *Policy) matchPath(s *source) bool {
	for i := range p.routes {
		for j := range s.paths.N {
			if p.routes[i].Matches(s.paths.At(j)) {
				s.pattern, s.variant = p.routes[i].Pattern, j
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

// limits returns the limits of a key, and the override that gives them, or nil. parts are the
// values of the key, which a hashed key does not contain.
func (p *Policy) limits(key string, parts []byte, s *source) ([]weir.Limit, *Override) {
	i, ok := p.overrides[key]
	if !ok {
		if i = slices.IndexFunc(p.wildcards, func(w wildcard) bool { return w.fits(parts, s) }); i >= 0 {
			i = p.wildcards[i].override
		}
	}
	switch {
	case p.tenants != nil && i < 0:
		return p.tenants.limits[p.tenants.rest], nil
	case p.tenants != nil:
		return p.tenants.limits[i], nil
	case i < 0:
		return p.config.Limits, nil
	}
	return p.config.Overrides[i].Limits, &p.config.Overrides[i]
}

func canonical(header string) string { return textproto.CanonicalMIMEHeaderKey(header) }
