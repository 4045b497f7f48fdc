package weirfile

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// policies reads the list of policies.
func (d *decoder) policies(p place) *policy.Set {
	if !p.there() {
		return nil
	}
	before := len(d.Faults())
	var ps []*policy.Policy
	names, fields := map[string]strict.Node{}, map[string]string{}
	for _, e := range d.elements(p) {
		made, name := d.policy(e)
		if name.There() && name.Kind() == strict.Text {
			if first := names[name.Text()]; first.There() {
				d.Fail(name, e.field+".name", name.String(), "want every name once: %s:%d:%d has it already", d.Name(), first.Line(), first.Column())
				continue
			}
			names[name.Text()], fields[name.Text()] = name, e.field
		}
		for _, one := range made {
			if level := one.Name(); names[level] != name {
				names[level], fields[level] = name, e.field
			}
		}
		ps = append(ps, made...)
	}
	if len(d.Faults()) > before || d.Spent() {
		return nil
	}
	set, err := policy.NewSet(ps...)
	var errs fault.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			d.Fail(names[e.Policy], strict.Join(fields[e.Policy], e.Field), e.Value, "%s", e.Want)
		}
	}
	return set
}

// exempt reads except of the file, and returns set without those requests.
func (d *decoder) exempt(root mapping, set *policy.Set) *policy.Set {
	before := len(d.Faults())
	r := &policyReader{decoder: d, places: map[string]strict.Node{"": root.node}}
	exempted, err := set.Exempt(r.exceptions(root.at("except"))...)
	var errs fault.Errors
	if errors.As(err, &errs) {
		r.report(errs, d.Faults()[before:])
		return set
	}
	unmatched := exempted.Unmatched()
	if len(unmatched) == 0 {
		return exempted
	}
	for i, n := range d.List(root.Values["policies"]) {
		if slices.Contains(unmatched, set.Policies()[i].Name()) {
			d.note(place{n, strict.Index("policies", i), nil}, "it applies to no request: except covers all that it matches")
		}
	}
	return exempted
}

// policy reads one policy, or one for each level of a budget, and returns the node of its name, if
// any.
func (d *decoder) policy(p place) ([]*policy.Policy, strict.Node) {
	before := len(d.Faults())
	m := d.mapping(p)
	if p.node.Kind() != strict.Map {
		return nil, strict.Node{}
	}
	r := &policyReader{decoder: d, field: p.field, places: map[string]strict.Node{"": p.node}}
	for _, name := range m.Order {
		r.places[name] = m.Values[name]
	}
	c, level := r.config(m), ""
	configs := []policy.Config{c}
	if m.at("budget").there() {
		configs = r.budget(m, c)
	}
	var all []*policy.Policy
	for i, c := range configs {
		if c.Settle.Meter != nil {
			level = fmt.Sprintf("budget.levels[%d].", i)
		}
		made, err := policy.New(c)
		var errs fault.Errors
		if errors.As(err, &errs) {
			for _, e := range errs {
				if level != "" && (strings.HasPrefix(e.Field, "limits") || strings.HasPrefix(e.Field, "key") || strings.HasPrefix(e.Field, "overrides")) {
					e.Field = level + e.Field
				}
			}
			r.report(errs, d.Faults()[before:])
			continue
		}
		all = append(all, made)
	}
	return all, m.Values["name"]
}

// A policyReader reads one policy and records the positions of its fields.
type policyReader struct {
	*decoder
	field  string
	places map[string]strict.Node // by field of the policy, as "match.paths[0]"

	unit   budget.Unit        // of the limits of a budget; "" for other limits
	lists  map[string][]place // of overrides in the file, by their field
	tables tables             // of overrides
}

// tables are the readers of overrides, by the field of these, such as "overrides".
type tables map[string]*listReader

func (r *policyReader) at(field string) string { return strict.Join(r.field, field) }

// record stores the position of a field of the policy.
func (r *policyReader) record(p place) place {
	r.places[strings.TrimPrefix(p.field, r.field+".")] = p.node
	return p
}

// report adds the errors of package policy, each at its field or the closest enclosing
// one. It adds no second error for a field, and no missing field if something could not
// be read.
func (r *policyReader) report(errs fault.Errors, known Errors) {
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
		l, i := r.tables.find(e.Field)
		if l == nil {
			r.locate(e.Field, around)
		}
		place := r.places[e.Field]
		if faulty[e.Field] || e.Value == "" && (around[e.Field] || faulty[""]) {
			continue
		}
		for f := range outer(e.Field) {
			if faulty[f] {
				continue next
			}
			if !place.There() {
				place = r.places[f]
			}
		}
		if l != nil {
			line, column := l.position(i, e.Field)
			r.FailFile(l.name, line, column, r.at(e.Field), e.Value, e.Want)
			continue
		}
		if !place.There() {
			place = r.places[""]
		}
		r.Fail(place, r.at(e.Field), e.Value, "%s", e.Want)
	}
}

// locate records the positions of the override of a field, if the field is of one. An override
// around a fault has one position: to read it again would report the fault again.
func (r *policyReader) locate(field string, around map[string]bool) {
	for of, list := range r.lists {
		if i, ok := indexIn(field, of); ok && i < len(list) {
			if r.record(list[i]); !around[strict.Index(of, i)] {
				r.override(list[i])
			}
		}
	}
}

// outer returns the enclosing fields of a field, from the innermost.
func outer(field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := len(field) - 1; i > 0; i-- {
			if (field[i] == '.' || field[i] == '[') && !yield(field[:i]) {
				return
			}
		}
	}
}
