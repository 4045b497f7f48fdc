package weirfile

import (
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// A decoder reads a document by the grammar. After a fault it continues, to find the
// next.
type decoder struct {
	*strict.Document

	expressions map[string]outcome // by what they are to be and their text
	compiled    int                // bytes of them
	notes       []string
	parsed      map[string]weir.Limit   // by text: overrides repeat a few
	shared      map[string][]weir.Limit // by their texts

	blocks       blocks
	broken       bool                              // a part of a list of overrides is no YAML
	read         func(name string) ([]byte, error) // of a table; nil if other files are not read
	prices       *budget.Prices                    // nil if there are none, or for pricesFailed
	pricesFailed bool
	shares       policy.Shares // the default of policies
	regions      *Regions      // nil: none
	bodiless     string        // the field because of which no interface reads the bodies of requests; "" if one does
}

// A place is a value with its position and the shape that the grammar gives it.
type place struct {
	node  strict.Node
	field string // such as policies[2].limits
	shape *grammar.Shape
}

func (p place) there() bool { return p.node.There() }

// failIn reports a fault at p.
func (d *decoder) failIn(p place, value, want string, args ...any) {
	d.Fail(p.node, p.field, value, want, args...)
}

// note adds a note about p to the file.
func (d *decoder) note(p place, text string) {
	d.notes = append(d.notes, fmt.Sprintf("%s:%d:%d: note: %s: %s", d.Name(), p.node.Line(), p.node.Column(), p.field, text))
}

// A mapping holds the values of a map by key.
type mapping struct {
	place
	strict.Mapping
}

// at returns the place of a field of the map.
func (m mapping) at(name string) place {
	shape := m.shape.Of // of a map of any names
	if m.shape.Kind == grammar.Map {
		shape = m.shape.Field(name)
	}
	return place{m.Values[name], strict.Join(m.field, name), shape}
}

// mapping reads a map with the fields of its shape, or with any.
func (d *decoder) mapping(p place) mapping {
	fields, ok := d.Map(p.node, p.field, p.shape.Names())
	m := mapping{p, fields}
	if ok { // or what seems to be missing may only be misspelled
		d.complete(m)
	}
	return m
}

// complete reports the missing fields of a map.
func (d *decoder) complete(m mapping) {
	there := func(name string) bool { return m.Names[name].There() }
	for _, f := range m.shape.Fields {
		if f.Required && !there(f.Name) && !slices.ContainsFunc(f.Unless, there) {
			d.Fail(m.node, strict.Join(m.field, f.Name), "", "%s", f.Shape.Want)
		}
	}
	if len(m.shape.OneOf) > 0 && !slices.ContainsFunc(slices.Concat(m.shape.OneOf...), there) {
		d.failIn(m.place, "", "%s", m.shape.Want)
	}
	if m.shape.NotEmpty && len(m.Names) == 0 {
		d.failIn(m.place, "an empty map", "%s", m.shape.Want)
	}
}

// elements returns the elements of a list, which must not be empty. A single value
// counts as a list of one where the shape allows that.
func (d *decoder) elements(p place) []place {
	if !p.there() {
		return nil
	}
	switch kind := p.node.Kind(); {
	case kind == strict.List:
	case kind != strict.Null && p.shape.Kind == grammar.ListOrOne: // a value that stands for a list is its first element
		return []place{{p.node, strict.Index(p.field, 0), p.shape.Of}}
	default:
		d.failIn(p, p.node.String(), "%s", p.shape.Want)
		return nil
	}
	d.Plain(p.node, p.field)
	if p.node.Len() == 0 {
		d.failIn(p, "an empty list", "%s", p.shape.Want)
	}
	var all []place
	for i, e := range d.List(p.node) {
		all = append(all, place{e, strict.Index(p.field, i), p.shape.Of})
	}
	return all
}
