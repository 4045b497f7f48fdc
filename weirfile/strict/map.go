package strict

import (
	"iter"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/internal/fault"
)

// Mapping holds the content of a map, by name.
type Mapping struct {
	// Values holds the values of the known fields.
	Values map[string]Node
	// Names holds the positions of all names, unknown ones too.
	Names map[string]Node
	// Order lists the names of Values in the order of the file.
	Order []string
}

// Map reads n, a map with the known fields, or with any if none are known. It reports
// faults and returns ok false if n is not a map or has names that cannot be read.
func (d *Document) Map(n Node, field string, known []string) (m Mapping, ok bool) {
	m = Mapping{Values: map[string]Node{}, Names: map[string]Node{}}
	if n.Kind() != Map {
		want := "want a map"
		if len(known) > 0 {
			want += " with " + OneOf(known)
		}
		d.Fail(n, field, n.String(), "%s", want)
		return m, false
	}
	d.Plain(n, field)
	before := len(d.errs)
	var merged []Node
	own := map[string]bool{}
	for i := 0; i+1 < len(n.value.Content) && !d.Spent(); i += 2 {
		k, v := d.follow(n.value.Content[i]), d.follow(n.value.Content[i+1])
		if k.value.Tag == "!!merge" {
			if d.config.Loose {
				merged = append(merged, v)
			} else {
				d.Fail(k.Here(), field, `"<<"`, "want the fields themselves: merge keys are not read")
			}
			continue
		}
		if k.Kind() != Text && !(d.config.Loose && len(known) == 0 && k.value.Kind == yaml.ScalarNode) {
			d.Fail(k.Here(), field, k.String(), "want text as the name of a field")
			continue
		}
		key, name := k.Text(), Join(field, k.Text())
		if own[key] {
			first := m.Names[key]
			d.Fail(k.Here(), name, "", "want every field once: it stands at %s:%d:%d already", d.name, first.Line(), first.Column())
			continue
		}
		own[key] = true
		m.Names[key] = k.Here()
		if len(known) > 0 && !slices.Contains(known, key) {
			d.unknown(k.Here(), name, key, known)
			continue
		}
		if v.Kind() != Null || !d.config.Loose || len(known) == 0 {
			m.Values[key] = v
			m.Order = append(m.Order, key)
		}
	}
	for _, from := range merged {
		d.merge(from, field, known, &m, own)
	}
	return m, len(d.errs) == before
}

func (d *Document) unknown(at Node, field, name string, known []string) {
	if m := fault.Meant(name, known); m != "" {
		d.Fail(at, field, "", "unknown field, did you mean %s?", m)
		return
	}
	d.Fail(at, field, "", "unknown field, want %s", OneOf(known))
}

// merge adds to m the fields of from, a map or a list of maps, that m does not have.
func (d *Document) merge(from Node, field string, known []string, m *Mapping, own map[string]bool) {
	if d.Spent() {
		return
	}
	switch from.Kind() {
	case List:
		for _, one := range from.value.Content {
			d.merge(d.follow(one), field, known, m, own)
		}
		return
	case Map:
	default:
		d.Fail(from, Join(field, "<<"), from.String(), "want a map to merge, or a list of maps")
		return
	}
	other, _ := d.Map(from, field, known)
	for _, k := range other.Order {
		if !own[k] {
			own[k] = true
			m.Names[k], m.Values[k] = other.Names[k], other.Values[k]
			m.Order = append(m.Order, k)
		}
	}
}

// List returns the elements of n with their indexes, or none if n is not a list. It
// ends early if the document is [Document.Spent].
func (d *Document) List(n Node) iter.Seq2[int, Node] {
	return func(yield func(int, Node) bool) {
		if n.Kind() != List {
			return
		}
		for i, e := range n.value.Content {
			if d.Spent() || !yield(i, d.follow(e)) {
				return
			}
		}
	}
}

// Plain refuses a tag such as !!binary, unless the file is read loosely. It reports
// whether n is accepted.
func (d *Document) Plain(n Node, field string) bool {
	if d.config.Loose || n.value.Style&yaml.TaggedStyle == 0 {
		return true
	}
	d.Fail(n, field, Quoted(n.value.Tag), "want a plain value without a tag: put a text that begins with ! in quotes")
	return false
}
