package weirfile

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/expr"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// config reads the fields of a policy.
func (r *policyReader) config(m mapping) policy.Config {
	var c policy.Config
	c.Name, _ = r.text(m.at("name"))
	r.match(m.at("match"), &c.Match)
	c.Except = r.exceptions(m.at("except"))
	c.Limits, c.Block, c.Unlimited = r.allowance(m.at("limits"))
	r.block(m, &c)
	r.key(m.at("key"), &c)
	r.cost(m.at("cost"), &c)
	word, _ := r.word(m.at("count"))
	c.Count = policy.Count(word)
	r.failures(m.at("failures"), &c)
	r.onDenied(m.at("on_denied"), &c.OnDenied)
	word, _ = r.word(m.at("on_store_error"))
	c.OnStoreError = policy.FailMode(word)
	word, _ = r.word(m.at("mode"))
	c.Mode = policy.Mode(word)
	c.Percent = int(r.integer(m.at("percent")))
	c.Candidate = r.limits(m.at("candidate"))
	c.Carry = r.carry(m.at("carry"))
	r.overrides(m.at("overrides"), &c)
	r.tenants(m.at("tenants"), &c)
	surplus, _ := r.word(m.at("surplus"))
	c.Weighted = surplus == grammar.Weighted
	r.nginx(m.at("nginx"), &c)
	policyShares(r, m, &c)
	policyRegions(r, m, &c)
	return c
}

func (d *decoder) carry(p place) weir.Carry {
	word, _ := d.word(p)
	return weir.Carry(max(0, slices.Index(grammar.Carries, word)))
}

func (r *policyReader) limits(p place) []weir.Limit {
	places := map[string]strict.Node{}
	parse := r.limit
	if r.unit != "" {
		parse = r.amount
	}
	limits := r.decoder.limits(p, places, parse)
	for field, n := range places {
		r.record(place{n, field, nil})
	}
	return limits
}

// allowance reads limits, or 0 or unlimited in their place.
func (r *policyReader) allowance(p place) (limits []weir.Limit, block, unlimited bool) {
	if !p.there() || p.shape != grammar.PolicyLimits && p.shape != grammar.LevelLimits {
		return r.limits(p), false, false
	}
	all := p
	if p.node.Kind() == strict.List {
		for i, n := range r.List(p.node) {
			switch {
			case !isAllowance(n):
			case all.node.Len() > 1:
				r.Fail(n, strict.Index(all.field, i), n.String(), "want it alone, without other limits")
				return nil, false, false
			default:
				p = place{n, strict.Index(all.field, i), all.shape.Of}
			}
		}
	}
	if word := p.node.Text(); isAllowance(p.node) {
		r.Plain(p.node, p.field)
		return nil, word == "0", word == "unlimited"
	}
	return r.limits(all), false, false
}

func isAllowance(n strict.Node) bool {
	return n.Scalar() && (n.Text() == "0" || n.Text() == "unlimited")
}

// block reads block: true.
func (r *policyReader) block(m mapping, c *policy.Config) {
	p := m.at("block")
	if !p.there() {
		return
	}
	for _, other := range []string{"limits", "nginx"} {
		if m.at(other).there() {
			r.failIn(p, p.node.String(), "want it or %s, not both", other)
			return
		}
	}
	if !r.boolean(p) && p.node.Kind() == strict.Boolean {
		r.failIn(p, p.node.String(), "want true, or limits in its place")
	}
	c.Block = true
}

func (r *policyReader) match(p place, m *policy.Match) {
	if !p.there() {
		return
	}
	if p.node.Kind() != strict.Map {
		s, ok := r.text(p)
		switch {
		case !ok:
		case strings.HasPrefix(s, "/"):
			m.Paths = []string{s}
			r.places["match.paths"], r.places["match.paths[0]"] = p.node, p.node
		case isName(s):
			r.failIn(p, strict.Quoted(s), "%s", p.shape.Want)
		default:
			m.Where = compiled(r.decoder, p, s, "", expr.Condition)
		}
		return
	}
	p.shape = p.shape.As(grammar.Map)
	fields := r.mapping(p)
	for name, to := range map[string]*[]string{"paths": &m.Paths, "methods": &m.Methods, "hosts": &m.Hosts} {
		*to = r.texts(fields.at(name))
	}
	m.Headers = r.headers(fields.at("headers"))
	if s, ok := r.text(fields.at("where")); ok {
		m.Where = compiled(r.decoder, r.record(fields.at("where")), s, "", expr.Condition)
	}
}

// headers reads lists of texts by name.
func (r *policyReader) headers(p place) map[string][]string {
	if !p.there() {
		return nil
	}
	lists := map[string][]string{}
	m := r.mapping(p)
	for _, name := range m.Order {
		lists[name] = r.texts(m.at(name))
	}
	return lists
}

// exceptions reads except.
func (r *policyReader) exceptions(p place) []policy.Exception {
	var all []policy.Exception
	for _, e := range r.elements(p) {
		fields := r.mapping(r.record(e))
		x := policy.Exception{
			Paths: r.texts(fields.at("paths")), Methods: r.texts(fields.at("methods")), Hosts: r.texts(fields.at("hosts")),
			Headers: r.headers(fields.at("headers")),
		}
		if p := fields.at("preflight"); p.there() {
			if x.Preflight = r.boolean(p); p.node.Kind() == strict.Boolean && !x.Preflight {
				r.failIn(p, p.node.String(), "want true, or no preflight")
			}
		}
		for _, e := range r.elements(fields.at("ips")) {
			s, ok := r.text(e)
			ip, err := netip.ParsePrefix(s)
			if addr, bad := netip.ParseAddr(s); bad == nil && addr.Zone() == "" {
				ip, err = netip.PrefixFrom(addr, addr.BitLen()), nil
			}
			if ok && (err != nil || ip.Addr().Is4In6()) {
				r.failIn(e, strict.Quoted(s), "want an address such as 203.0.113.7, or a prefix such as 10.0.0.0/8")
			}
			x.IPs = append(x.IPs, ip)
		}
		all = append(all, x)
	}
	return all
}

// isName reports whether s has only characters of names and paths.
func isName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-/*{}", c) {
			return false
		}
	}
	return s != "true" && s != "false"
}

// texts reads a list of texts, or one. A fault leaves "" in place of a text.
func (r *policyReader) texts(p place) []string {
	var texts []string
	for _, e := range r.elements(p) {
		s, _ := r.text(r.record(e))
		texts = append(texts, s)
	}
	if p.there() {
		r.record(p)
	}
	return texts
}

func (r *policyReader) key(p place, c *policy.Config) {
	for _, e := range r.elements(p) {
		s, ok := r.text(r.record(e))
		if text, found := strings.CutPrefix(s, "cel:"); found {
			part := policy.KeyPart{Source: policy.CEL}
			part.Of = compiled(r.decoder, e, text, "cel:", expr.Text)
			c.Key = append(c.Key, part)
			continue
		}
		part, err := policy.ParseKeyPart(s)
		if ok && err != nil {
			_, want, _ := strings.Cut(err.Error(), ": invalid: ")
			if strings.HasSuffix(want, "const:TEXT") || s == "cel" { // all that it could be, but for an expression
				want = p.shape.Want
			}
			r.failIn(e, strict.Quoted(s), "%s", want)
		} else if body := part.Source == policy.Form || part.Source == policy.JSON; body && r.bodiless != "" {
			r.failIn(e, strict.Quoted(s), "want another part: with %s no interface reads the bodies of requests", r.bodiless)
		}
		c.Key = append(c.Key, part)
	}
}

func (r *policyReader) cost(p place, c *policy.Config) {
	if !p.there() {
		return
	}
	if p.node.Kind() != strict.Map {
		r.tokens(p, c)
		return
	}
	p.shape = p.shape.As(grammar.Map)
	m := r.mapping(p)
	for _, name := range m.Order {
		r.record(m.at(name))
	}
	if p := m.at("estimate"); p.there() {
		r.tokens(p, c)
	}
	c.Settle.Header, _ = r.text(m.at("header"))
	c.Settle.JSON, _ = r.text(m.at("json"))
	if p := m.at("expr"); p.there() {
		if s, ok := r.text(p); ok {
			c.Settle.Expr = compiled(r.decoder, p, s, "", expr.ResponseCost)
		}
	}
}

// tokens reads a number of tokens, or an expression for one.
func (r *policyReader) tokens(p place, c *policy.Config) {
	if p.node.Kind() == strict.Text {
		switch s, ok := r.text(p); {
		case !ok:
		case isName(s) && strings.Trim(s, "-0123456789") != "":
			r.failIn(p, strict.Quoted(s), "%s", p.shape.Want)
		default:
			c.CostOf = compiled(r.decoder, p, s, "", expr.Measure)
		}
		return
	}
	number := *p.shape.As(grammar.Integer)
	if p.node.Kind() != strict.Integer {
		number.Want = p.shape.Want
	}
	p.shape = &number
	c.Cost = r.integer(p)
}

func (r *policyReader) failures(p place, c *policy.Config) {
	for _, e := range r.elements(p) {
		r.record(e)
		s, ok := r.scalar(e, e.shape.Want)
		status, good := statuses(s)
		if ok && (!good || e.node.Kind() != strict.Text && e.node.Kind() != strict.Integer) {
			r.failIn(e, e.node.String(), "%s", e.shape.Want)
		}
		c.Failures = append(c.Failures, status)
	}
}

// statuses reads 401, 5xx or 500-504.
func statuses(s string) ([2]int, bool) {
	if len(s) == 3 && strings.EqualFold(s[1:], "xx") && s[0] >= '1' && s[0] <= '5' {
		from := 100 * int(s[0]-'0')
		return [2]int{from, from + 99}, true
	}
	first, last, ranged := strings.Cut(s, "-")
	if !ranged {
		last = first
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	ok := err1 == nil && err2 == nil && len(first) == 3 && len(last) == 3 && a >= 100 && b <= 599 && a <= b
	return [2]int{a, b}, ok
}

func (r *policyReader) onDenied(p place, o *policy.OnDenied) {
	if !p.there() {
		return
	}
	m := r.mapping(p)
	for _, name := range m.Order {
		r.record(m.at(name))
	}
	o.Status = int(r.integer(m.at("status")))
	o.Body, _ = r.text(m.at("body"))
	o.ContentType, _ = r.text(m.at("content_type"))
	o.Redirect, _ = r.text(m.at("redirect"))
	o.Wait = r.duration(m.at("wait"))
	if p := m.at("headers"); p.there() {
		o.Headers = map[string]string{}
		headers := r.mapping(p)
		for _, name := range headers.Order {
			o.Headers[name], _ = r.text(r.record(headers.at(name)))
		}
	}
}

func (r *policyReader) tenants(p place, c *policy.Config) {
	for _, e := range r.elements(p) {
		m := r.mapping(r.record(e))
		var t policy.Tenant
		if p := m.at("key"); p.there() {
			t.Key = r.overrideKey(r.record(p))
		}
		t.Weight, t.Burst = 1, 1
		if p := m.at("weight"); p.there() {
			t.Weight = r.integer(r.record(p))
		}
		if p := m.at("burst"); p.there() {
			t.Burst = r.integer(r.record(p))
		}
		if p := m.at("ceil"); p.there() {
			t.Ceil = r.limit(r.record(p))
		}
		c.Tenants = append(c.Tenants, t)
	}
	if len(c.Tenants) > 0 {
		r.record(p)
	}
}

// overrideKey reads the values of a key. "" matches requests without that part.
func (r *policyReader) overrideKey(p place) []string {
	var key []string
	for _, e := range r.elements(p) {
		s, ok := r.scalar(r.record(e), e.shape.Want)
		if ok && e.node.Kind() != strict.Text {
			r.failIn(e, e.node.String(), "%s: put it in quotes", e.shape.Want)
		}
		key = append(key, s)
	}
	return key
}
