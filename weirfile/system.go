package weirfile

import (
	"errors"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// SystemRules configures protect.System for the gateway.
type SystemRules struct {
	Shadow      bool // mode: shadow
	CPU, Memory int  // percentages; no rule if zero
	Load        float64
	InFlight    int

	// Priorities are in the order of the file: the first that matches applies.
	Priorities []Priority

	// Classes has a policy for each of Priorities, with its name and match, after one for exempt
	// requests, called ExemptClass. They are not policies of the file.
	Classes *policy.Set
}

// Equal reports whether two values have the same rules. Their Classes may differ.
func (s *SystemRules) Equal(o *SystemRules) bool {
	return s.CPU == o.CPU && s.Memory == o.Memory && s.Load == o.Load && s.InFlight == o.InFlight && slices.Equal(s.Priorities, o.Priorities)
}

// ExemptClass is the name of the policy of SystemRules.Classes for exempt requests.
const ExemptClass = "exempt"

// A Priority is a priority class.
type Priority struct {
	Name   string
	ShedAt int
}

// system reads the section system.
func (d *decoder) system(p place) *SystemRules {
	if !p.there() {
		return nil
	}
	m := d.mapping(p)
	s := &SystemRules{
		Shadow: d.shadow(m), CPU: d.calls(m.at("cpu"), 0), Memory: d.calls(m.at("memory"), 0),
		Load: float64(d.calls(m.at("load"), 0)), InFlight: d.calls(m.at("inflight"), 0),
	}
	if s.Load > 0 {
		d.note(m.at("load"), "the load average is that of the machine, also in a container: use cpu there")
	}
	rules := m.at("cpu").there() || m.at("memory").there() || m.at("load").there() || m.at("inflight").there()
	if !rules && m.node.Kind() == strict.Map {
		d.failIn(p, "", "%s", p.shape.Want)
	}
	var classes []*policy.Policy
	if exempt := m.at("exempt"); exempt.there() {
		classes = d.class(classes, p, ExemptClass, exempt)
	}
	names := map[string]bool{ExemptClass: true}
	for _, e := range d.elements(m.at("priorities")) {
		one := d.mapping(e)
		name, ok := d.text(one.at("name"))
		if ok && names[name] {
			d.failIn(one.at("name"), strict.Quoted(name), "want every name once, and not %s", ExemptClass)
			continue
		}
		names[name] = true
		s.Priorities = append(s.Priorities, Priority{name, d.calls(one.at("shed_at"), 100)})
		if ok {
			classes = d.class(classes, e, name, one.at("match"))
		}
	}
	set, err := policy.NewSet(classes...)
	if err != nil {
		d.failIn(p, "", "%v", err)
		return s
	}
	s.Classes = set
	return s
}

// class appends a policy with a name and the match at a place.
func (d *decoder) class(all []*policy.Policy, p place, name string, match place) []*policy.Policy {
	before := len(d.Faults())
	c := policy.Config{Name: name, Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: []weir.Limit{weir.MustLimit("1/s")}}
	r := &policyReader{decoder: d, field: p.field, places: map[string]strict.Node{"": p.node, "match": match.node}}
	r.match(match, &c.Match)
	one, err := policy.New(c)
	var errs fault.Errors
	if errors.As(err, &errs) {
		r.report(errs, d.Faults()[before:])
	}
	if err != nil {
		return all
	}
	return append(all, one)
}
