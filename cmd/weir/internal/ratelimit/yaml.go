package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// This file alone knows the YAML package. What reads a file works on nodes, which
// know where they stand, and goes on after a fault to find the next.

type node = yaml.Node

const (
	// maxAliased is how many values aliases may add to a file, so that aliases of
	// aliases of lists do not make a small file a large one.
	maxAliased = 100_000
	// enough is after how many faults of a file no more are looked for.
	enough = 10 * maxErrors
)

type decoder struct {
	file   string
	errs   Errors
	budget int    // of values that may still be looked at
	bomb   *Error // that it ran out
}

// fail notes a fault at n.
func (d *decoder) fail(n *node, field, value, want string, args ...any) {
	d.failAt(n.Line, n.Column, field, value, fmt.Sprintf(want, args...))
}

func (d *decoder) failAt(line, column int, field, value, want string) {
	d.errs = append(d.errs, &Error{
		File: d.file, Line: max(1, line), Column: max(1, column), Field: field, Value: value, Want: want,
	})
}

// parse is the root of the one document of data, or nil if it has faults.
func (d *decoder) parse(data []byte) *node {
	if len(data) > MaxSize {
		d.failAt(1, 1, "", fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("want a file of at most %d bytes", MaxSize))
		return nil
	}
	if !utf8.Valid(data) {
		at := strings.IndexRune(string(data), utf8.RuneError)
		before := string(data[:max(0, at)])
		d.failAt(1+strings.Count(before, "\n"), 1, "", "", "want text in UTF-8")
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

const wantSomething = "want domain and descriptors, got an empty file"

// size is the number of values in the file as it stands.
func size(n *node) int {
	all := 1
	for _, c := range n.Content {
		all += size(c)
	}
	return all
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
	if last := strings.Count(string(data), "\n") + 1; line > last {
		line, column = last, 1 // the end of a file that does not end in a line end
	}
	switch {
	case strings.HasPrefix(text, "no documents"):
		d.failAt(1, 1, "", "", wantSomething)
	case strings.HasPrefix(text, "expected single document"):
		d.failAt(1, 1, "", "", "want one document, got several: a line of --- begins another")
	default:
		if one.ContextMsg != "" {
			text += " " + one.ContextMsg
		}
		d.failAt(line, column, "", "", "want YAML: "+printable(text))
	}
}

// follow is what n stands for: itself, or what it is an alias of.
func (d *decoder) follow(n *node) *node {
	if d.budget--; d.budget == 0 {
		d.bomb = &Error{
			File: d.file, Line: n.Line, Column: n.Column, Want: fmt.Sprintf("want fewer aliases: they add more than %d values to the file", maxAliased),
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

// A mapping is the values of a map by key, in order. A field that is not there, or is
// nothing, is not among them.
type mapping struct {
	values map[string]*node
	keys   map[string]*node
	order  []string
}

// mapping reads a map with the given keys, or any if none are given. Merge keys (<<)
// add fields that the map itself does not have.
func (d *decoder) mapping(n *node, field string, known ...string) mapping {
	m := mapping{values: map[string]*node{}, keys: map[string]*node{}}
	if n.Kind != yaml.MappingNode {
		want := "want a map"
		if len(known) > 0 {
			want += " with " + list(known)
		}
		d.fail(n, field, value(n), "%s", want)
		return m
	}
	var merged []*node
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && !d.spent(); i += 2 {
		k, v := d.follow(n.Content[i]), d.follow(n.Content[i+1])
		at := n.Content[i]
		switch {
		case k.Tag == "!!merge":
			merged = append(merged, v)
			continue
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str" && len(known) > 0:
			d.fail(at, field, value(k), "want text as the name of a field")
			continue
		}
		name := join(field, k.Value)
		if own[k.Value] {
			d.fail(at, name, "", "want every field once: it stands at line %d already", m.keys[k.Value].Line)
			continue
		}
		own[k.Value] = true
		m.keys[k.Value] = at
		if len(known) > 0 && !slices.Contains(known, k.Value) {
			d.fail(at, name, "", "unknown field, want %s", list(known))
			continue
		}
		if kind(v) != "nothing" || len(known) == 0 {
			m.values[k.Value] = v
			m.order = append(m.order, k.Value)
		}
	}
	for _, from := range merged {
		d.merge(from, field, known, &m, own)
	}
	return m
}

// merge adds to m what from has, a map or a list of them, and m does not.
func (d *decoder) merge(from *node, field string, known []string, m *mapping, own map[string]bool) {
	if d.spent() {
		return
	}
	if from.Kind == yaml.SequenceNode {
		for _, one := range from.Content {
			d.merge(d.follow(one), field, known, m, own)
		}
		return
	}
	if from.Kind != yaml.MappingNode {
		d.fail(from, join(field, "<<"), value(from), "want a map to merge, or a list of maps")
		return
	}
	other := d.mapping(from, field, known...)
	for _, k := range other.order {
		if !own[k] {
			own[k] = true
			m.keys[k], m.values[k] = other.keys[k], other.values[k]
			m.order = append(m.order, k)
		}
	}
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
