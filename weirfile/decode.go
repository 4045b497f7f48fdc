package weirfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/weirfile/internal/grammar"
)

// This file alone knows the YAML package. What reads a file works on nodes, which
// know where they stand, and goes on after a fault to find the next.

type node = yaml.Node

const (
	// maxAliased is how many values aliases may add to a file, so that aliases of
	// aliases of lists do not make a small file a large one.
	maxAliased = 100_000
	// enough is after how many faults no more are looked for.
	enough = 10 * maxErrors
)

type decoder struct {
	name   string
	data   []byte
	lines  []string // of data, once they are asked for
	errs   Errors
	budget int    // of values that may still be looked at
	bomb   *Error // that it ran out

	expressions map[string]outcome // by what they are to be and their text
	compiled    int                // bytes of them
}

// fail notes a fault at n.
func (d *decoder) fail(n *node, field, value, want string, args ...any) {
	d.failAt(n.Line, n.Column, field, value, fmt.Sprintf(want, args...))
}

func (d *decoder) failAt(line, column int, field, value, want string) {
	d.errs = append(d.errs, &Error{
		File: d.name, Line: max(1, line), Column: max(1, column), Field: field, Value: value, Want: want,
	})
}

// parse is the root of the one document of data, or nil if it has faults.
func (d *decoder) parse(data []byte) *node {
	d.data = data
	if len(data) > MaxSize {
		d.failAt(1, 1, "", fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("want a file of at most %d bytes", MaxSize))
		return nil
	}
	if i, what := foreign(data); what != "" {
		line, column := lineOf(data, i)
		d.failAt(line, column, "", what, "want text in UTF-8 without control characters")
		return nil
	}
	var doc node
	if err := yaml.Load(data, &doc); err != nil {
		d.syntax(data, err)
		return nil
	}
	if len(doc.Content) != 1 || kind(doc.Content[0]) == "nothing" {
		d.failAt(1, 1, "", "", wantSomething)
		return nil
	}
	d.budget = size(&doc) + maxAliased
	return d.follow(doc.Content[0])
}

// size is the number of values in the file as it stands.
func size(n *node) int {
	all := 1
	for _, c := range n.Content {
		all += size(c)
	}
	return all
}

const wantSomething = "want policies, store, gateway or another section, got an empty file"

// foreign is the first place that is no text, and what stands there.
func foreign(data []byte) (at int, what string) {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return i, fmt.Sprintf("the byte %#02x", data[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return i, fmt.Sprintf("the character %U", r)
		}
		i += size
	}
	return 0, ""
}

// lineOf is the line and column of the byte i.
func lineOf(data []byte, i int) (line, column int) {
	before := string(data[:i])
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// syntax notes the fault of a file that is no YAML.
func (d *decoder) syntax(data []byte, err error) {
	var one *yaml.LoadError
	if many := (*yaml.LoadErrors)(nil); errors.As(err, &many) && len(many.Errors) > 0 {
		one = many.Errors[0]
	} else if !errors.As(err, &one) {
		d.failAt(1, 1, "", "", "want YAML: "+printable(err.Error()))
		return
	}
	text := strings.TrimPrefix(one.Message, "yaml: ")
	line, column := one.Mark.Line, one.Mark.Column
	if last := bytes.Count(data, []byte("\n")) + 1; line > last {
		line, column = last, 1 // the end of a file that does not end in a line end
	}
	switch {
	case strings.HasPrefix(text, "no documents"):
		d.failAt(1, 1, "", "", wantSomething)
	case strings.HasPrefix(text, "expected single document"):
		d.failAt(1, 1, "", "", "want one document, got several: a line of --- begins another")
	case tabbed(data, line):
		d.failAt(line, column, "", "a tab", "want spaces: YAML does not indent with tabs")
	case one.ContextMsg == "while parsing a tag":
		d.failAt(line, column, "", "a tag", "want a plain value without one: put a text that begins with ! in quotes")
	default:
		if one.ContextMsg != "" {
			text += " " + one.ContextMsg
		}
		d.failAt(line, column, "", "", "want YAML: "+printable(text))
	}
}

// tabbed reports whether a line begins with space that has a tab in it.
func tabbed(data []byte, line int) bool {
	for i, text := range strings.Split(string(data), "\n") {
		if i+1 == line {
			return strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t")
		}
	}
	return false
}

// follow is what n stands for: itself, or what it is an alias of.
func (d *decoder) follow(n *node) *node {
	if d.budget--; d.budget == 0 {
		d.bomb = &Error{
			File: d.name, Line: n.Line, Column: n.Column, Want: fmt.Sprintf("want fewer aliases: they add more than %d values to the file", maxAliased),
		}
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias // an anchor stands at a value, never at an alias
	}
	return n
}

// spent reports that the rest of the file is to be left alone.
func (d *decoder) spent() bool { return d.budget <= 0 || len(d.errs) >= enough }

// kind is what n is, in words.
func kind(n *node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
	}
	return "a value"
}

// value is what stands at n, for an error.
func value(n *node) string {
	if kind(n) != "a value" {
		return kind(n)
	}
	if n.Tag == "!!str" || len(n.Value) > 60 || printable(n.Value) != n.Value {
		return quoted(n.Value)
	}
	return n.Value
}

// A place is where a value stands and what can stand there. Its node is nil if there
// is none.
type place struct {
	node  *node
	field string // such as policies[2].limits
	shape *grammar.Shape
}

func (p place) there() bool { return p.node != nil }

// failIn notes a fault at p.
func (d *decoder) failIn(p place, value, want string, args ...any) {
	d.fail(p.node, p.field, value, want, args...)
}

// A mapping is the values of a map by key.
type mapping struct {
	place
	values map[string]*node
	keys   map[string]*node
	order  []string
}

// at is where a field of the map stands.
func (m mapping) at(name string) place {
	shape := m.shape.Of // of a map of any names
	if m.shape.Kind == grammar.Map {
		shape = m.shape.Field(name)
	}
	return place{m.values[name], join(m.field, name), shape}
}

// mapping reads a map: the fields of its shape, or any.
func (d *decoder) mapping(p place) mapping {
	m := mapping{place: p, values: map[string]*node{}, keys: map[string]*node{}}
	n, known := p.node, p.shape.Names()
	if n.Kind != yaml.MappingNode {
		want := "want a map"
		if len(known) > 0 {
			want += " with " + list(known)
		}
		d.failIn(p, value(n), "%s", want)
		return m
	}
	d.untagged(p)
	before := len(d.errs)
	for i := 0; i+1 < len(n.Content) && !d.spent(); i += 2 {
		k, v := d.follow(n.Content[i]), d.follow(n.Content[i+1])
		at := n.Content[i]
		switch {
		case k.Tag == "!!merge":
			d.fail(at, p.field, `"<<"`, "want the fields themselves: merge keys are not read")
			continue
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			d.fail(at, p.field, value(k), "want text as the name of a field")
			continue
		}
		name := join(p.field, k.Value)
		if first := m.keys[k.Value]; first != nil {
			d.fail(at, name, "", "want every field once: it stands at %s:%d:%d already", d.name, first.Line, first.Column)
			continue
		}
		m.keys[k.Value] = at
		if len(known) > 0 && !slices.Contains(known, k.Value) {
			d.unknown(at, name, k.Value, known)
			continue
		}
		m.values[k.Value] = v
		m.order = append(m.order, k.Value)
	}
	if len(d.errs) == before { // or what seems to be missing may only be misspelled
		d.complete(m)
	}
	return m
}

// complete notes what is missing in a map that was read.
func (d *decoder) complete(m mapping) {
	for _, f := range m.shape.Fields {
		if f.Required && m.keys[f.Name] == nil {
			d.fail(m.node, join(m.field, f.Name), "", "%s", f.Shape.Want)
		}
	}
	if len(m.shape.OneOf) > 0 && !slices.ContainsFunc(m.shape.OneOf, func(name string) bool { return m.keys[name] != nil }) {
		d.failIn(m.place, "", "%s", m.shape.Want)
	}
	if m.shape.NotEmpty && len(m.keys) == 0 {
		d.failIn(m.place, "an empty map", "%s", m.shape.Want)
	}
}

func (d *decoder) unknown(at *node, field, name string, known []string) {
	if m := meant(name, known); m != "" {
		d.fail(at, field, "", "unknown field, did you mean %s?", m)
		return
	}
	d.fail(at, field, "", "unknown field, want %s", list(known))
}

// list is names in words: "a, b or c".
func list(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// untagged refuses a tag such as !!binary.
func (d *decoder) untagged(p place) bool {
	if p.node.Style&yaml.TaggedStyle == 0 {
		return true
	}
	d.failIn(p, quoted(p.node.Tag), "want a plain value without a tag: put a text that begins with ! in quotes")
	return false
}

// elements are the elements of a list that is not empty, or the value itself as the
// only one where that is allowed.
func (d *decoder) elements(p place) []place {
	if !p.there() {
		return nil
	}
	n := p.node
	if n.Kind != yaml.SequenceNode {
		if p.shape.Kind == grammar.ListOrOne && kind(n) != "nothing" {
			return []place{{n, element(p.field, 0), p.shape.Of}}
		}
		d.failIn(p, value(n), "%s", p.shape.Want)
		return nil
	}
	d.untagged(p)
	if len(n.Content) == 0 {
		d.failIn(p, "an empty list", "%s", p.shape.Want)
	}
	var all []place
	for i, e := range n.Content {
		if d.spent() {
			break
		}
		all = append(all, place{d.follow(e), element(p.field, i), p.shape.Of})
	}
	return all
}

// element is the name of the i-th element of a list. A value that stands for a list
// is its first element.
func element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
