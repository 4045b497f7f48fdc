package weirfile

import (
	"errors"
	"iter"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/policy"
)

// policies reads the list of policies.
func (d *decoder) policies(n *node) *policy.Set {
	before := len(d.errs)
	var ps []*policy.Policy
	names := map[string]*node{}
	for i, e := range d.elements(n, "policies", "want a list of policies, each with name, key and limits", false) {
		field := element("policies", i)
		p, name := d.policy(e, field)
		if name != nil && name.Tag == "!!str" {
			if first := names[name.Value]; first != nil {
				d.fail(name, field+".name", value(name), "want every name once: %s:%d:%d has it already", d.name, first.Line, first.Column)
				continue
			}
			names[name.Value] = name
		}
		ps = append(ps, p)
	}
	if len(d.errs) > before || d.spent() {
		return nil
	}
	set, err := policy.NewSet(ps...)
	var errs policy.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			d.fail(n, "policies", e.Value, "%s (policy %q)", e.Want, e.Policy)
		}
	}
	return set
}

// policy reads one policy and the node of its name, which is nil if it has none.
func (d *decoder) policy(n *node, field string) (*policy.Policy, *node) {
	before := len(d.errs)
	m := d.mapping(n, field, "name", "match", "key", "limits", "cost", "on_denied", "on_store_error", "mode", "overrides")
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	r := &policyReader{decoder: d, field: field, places: map[string]*node{"": n}}
	for _, name := range m.order {
		r.places[name] = m.get(name)
	}
	c := r.config(m)
	p, err := policy.New(c)
	var errs policy.Errors
	if errors.As(err, &errs) {
		r.report(errs, d.errs[before:])
	}
	return p, m.get("name")
}

// A policyReader reads one policy and remembers where its fields stand.
type policyReader struct {
	*decoder
	field  string
	places map[string]*node // by field of the policy, as "match.paths[0]"
}

func (r *policyReader) at(field string) string { return join(r.field, field) }

// report notes what package policy refuses, at the place of the field or of the
// closest one around it. What has a fault already has no second one, and nothing is
// missing where something could not be read.
func (r *policyReader) report(errs policy.Errors, known Errors) {
	faulty, around := map[string]bool{}, map[string]bool{}
	for _, e := range known {
		field := strings.TrimPrefix(strings.TrimPrefix(e.Field, r.field), ".")
		faulty[field] = true
		for f := range outer(field) {
			around[f] = true
		}
	}
next:
	for _, e := range errs {
		place := r.places[e.Field]
		if faulty[e.Field] || e.Value == "" && (around[e.Field] || faulty[""]) {
			continue
		}
		for f := range outer(e.Field) {
			if faulty[f] {
				continue next
			}
			if place == nil {
				place = r.places[f]
			}
		}
		if place == nil {
			place = r.places[""]
		}
		r.fail(place, r.at(e.Field), e.Value, "%s", e.Want)
	}
}

// outer is the fields around a field, from within outwards.
func outer(field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := len(field) - 1; i > 0; i-- {
			if (field[i] == '.' || field[i] == '[') && !yield(field[:i]) {
				return
			}
		}
	}
}

func (r *policyReader) config(m mapping) policy.Config {
	var c policy.Config
	if n := m.get("name"); n != nil {
		c.Name, _ = r.text(n, r.at("name"), "want a name")
	}
	if n := m.get("match"); n != nil {
		r.match(n, &c.Match)
	}
	if n := m.get("key"); n != nil {
		r.key(n, &c)
	}
	if n := m.get("limits"); n != nil {
		places := map[string]*node{}
		c.Limits = r.limits(n, r.at("limits"), places)
		for at, n := range places {
			r.places[strings.TrimPrefix(at, r.field+".")] = n
		}
	}
	if n := m.get("cost"); n != nil {
		c.Cost, _ = r.integer(n, r.at("cost"), 1, 1<<40)
	}
	if n := m.get("on_denied"); n != nil {
		r.onDenied(n, &c.OnDenied)
	}
	if n := m.get("on_store_error"); n != nil {
		s, _ := r.text(n, r.at("on_store_error"), "want open or closed")
		c.OnStoreError = policy.FailMode(s)
	}
	if n := m.get("mode"); n != nil {
		s, _ := r.text(n, r.at("mode"), "want enforce, shadow or off")
		c.Mode = policy.Mode(s)
	}
	if n := m.get("overrides"); n != nil {
		r.overrides(n, &c)
	}
	return c
}

const wantMatch = "want a path such as /api/*, or a map with paths, methods, hosts or headers"

func (r *policyReader) match(n *node, m *policy.Match) {
	if n.Kind != yaml.MappingNode {
		s, ok := r.text(n, r.at("match"), wantMatch)
		switch {
		case ok && strings.HasPrefix(s, "/"):
			m.Paths = []string{s}
			r.places["match.paths"], r.places["match.paths[0]"] = n, n
		case ok:
			r.fail(n, r.at("match"), quoted(s), wantMatch+": expressions are not available yet")
		}
		return
	}
	fields := r.mapping(n, r.at("match"), "paths", "methods", "hosts", "headers")
	for name, to := range map[string]*[]string{"paths": &m.Paths, "methods": &m.Methods, "hosts": &m.Hosts} {
		if n := fields.get(name); n != nil {
			*to = r.texts(n, "match."+name)
		}
	}
	if n := fields.get("headers"); n != nil {
		m.Headers = map[string][]string{}
		headers := r.mapping(n, r.at("match.headers"))
		for _, name := range headers.order {
			m.Headers[name] = r.texts(headers.get(name), "match.headers."+name)
		}
	}
	if len(fields.keys) == 0 {
		r.fail(n, r.at("match"), "an empty map", wantMatch+"; leave match out for all requests")
	}
}

// texts reads a list of texts, or one. A fault leaves "" in the place of a text.
func (r *policyReader) texts(n *node, field string) []string {
	r.places[field] = n
	var texts []string
	for i, e := range r.elements(n, r.at(field), "want a text or a list of them", true) {
		at := element(field, i)
		r.places[at] = e
		s, _ := r.text(e, r.at(at), "want a text")
		texts = append(texts, s)
	}
	return texts
}

func (r *policyReader) key(n *node, c *policy.Config) {
	const want = "want who shares a bucket: client.ip, client.ip/BITS, header:NAME, query:NAME, cookie:NAME, path, method, host or const:TEXT"
	for i, e := range r.elements(n, r.at("key"), want, true) {
		at := element("key", i)
		r.places[at] = e
		s, ok := r.text(e, r.at(at), want)
		part, err := policy.ParseKeyPart(s)
		if ok && err != nil {
			_, wanted, _ := strings.Cut(err.Error(), ": invalid: ")
			r.fail(e, r.at(at), quoted(s), "%s", wanted)
		}
		c.Key = append(c.Key, part)
	}
}

func (r *policyReader) onDenied(n *node, o *policy.OnDenied) {
	m := r.mapping(n, r.at("on_denied"), "status", "body", "content_type", "headers")
	for _, name := range m.order {
		r.places["on_denied."+name] = m.get(name)
	}
	if n := m.get("status"); n != nil {
		status, _ := r.integer(n, r.at("on_denied.status"), 200, 599)
		o.Status = int(status)
	}
	if n := m.get("body"); n != nil {
		o.Body, _ = r.text(n, r.at("on_denied.body"), "want problem+json or a text")
	}
	if n := m.get("content_type"); n != nil {
		o.ContentType, _ = r.text(n, r.at("on_denied.content_type"), "want a media type such as text/html; charset=utf-8")
	}
	if n := m.get("headers"); n != nil {
		o.Headers = map[string]string{}
		headers := r.mapping(n, r.at("on_denied.headers"))
		for _, name := range headers.order {
			field := "on_denied.headers." + name
			r.places[field] = headers.get(name)
			o.Headers[name], _ = r.text(headers.get(name), r.at(field), "want the value of a header")
		}
	}
}

func (r *policyReader) overrides(n *node, c *policy.Config) {
	const want = "want a list of overrides such as { key: [203.0.113.7], limits: [1000/s] }"
	for i, e := range r.elements(n, r.at("overrides"), want, false) {
		field := element("overrides", i)
		r.places[field] = e
		m := r.mapping(e, r.at(field), "key", "limits")
		var o policy.Override
		if n := m.get("key"); n != nil {
			o.Key = r.overrideKey(n, field+".key")
		}
		if n := m.get("limits"); n != nil {
			places := map[string]*node{}
			r.places[field+".limits"] = n
			o.Limits = r.limits(n, r.at(field+".limits"), places)
			for at, n := range places {
				r.places[strings.TrimPrefix(at, r.field+".")] = n
			}
		}
		c.Overrides = append(c.Overrides, o)
	}
}

// overrideKey reads the values of a key, which may be empty: "" is the anonymous
// part.
func (r *policyReader) overrideKey(n *node, field string) []string {
	const want = `want the values of the key, as text; "" for those who have none`
	r.places[field] = n
	var key []string
	for i, e := range r.elements(n, r.at(field), want, true) {
		at := element(field, i)
		r.places[at] = e
		s, ok := r.scalar(e, r.at(at), want)
		if ok && e.Tag != "!!str" {
			r.fail(e, r.at(at), value(e), want+": put it in quotes")
		}
		key = append(key, s)
	}
	return key
}
