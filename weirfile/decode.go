package weirfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// enough is after how many faults no more are looked for.
	enough = 10 * maxErrors
)

type decoder struct {
	name   string
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
		File: d.name, Line: max(1, line), Column: max(1, column), Field: field, Value: value, Want: want,
	})
}

// parse is the root of the one document of data, or nil if it has faults.
func (d *decoder) parse(data []byte) *node {
	if len(data) > MaxSize {
		d.failAt(1, 1, "", fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("want a file of at most %d bytes", MaxSize))
		return nil
	}
	if i, what := foreign(data); what != "" {
		line, column := place(data, i)
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

const wantSomething = "want policies, store, gateway or http, got an empty file"

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

// place is the line and column of the byte i.
func place(data []byte, i int) (line, column int) {
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

// A mapping is the values of a map by key.
type mapping struct {
	node   *node
	values map[string]*node
	keys   map[string]*node
	order  []string
}

func (m mapping) get(key string) *node { return m.values[key] }

// mapping reads a map with the given keys, or any if none are given.
func (d *decoder) mapping(n *node, field string, known ...string) mapping {
	m := mapping{node: n, values: map[string]*node{}, keys: map[string]*node{}}
	if n.Kind != yaml.MappingNode {
		want := "want a map"
		if len(known) > 0 {
			want += " with " + list(known)
		}
		d.fail(n, field, value(n), "%s", want)
		return m
	}
	d.untagged(n, field)
	for i := 0; i+1 < len(n.Content) && !d.spent(); i += 2 {
		k, v := d.follow(n.Content[i]), d.follow(n.Content[i+1])
		at := n.Content[i]
		switch {
		case k.Tag == "!!merge":
			d.fail(at, field, `"<<"`, "want the fields themselves: merge keys are not read")
			continue
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			d.fail(at, field, value(k), "want text as the name of a field")
			continue
		}
		name := join(field, k.Value)
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
	return m
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
func (d *decoder) untagged(n *node, field string) bool {
	if n.Style&yaml.TaggedStyle == 0 {
		return true
	}
	d.fail(n, field, quoted(n.Tag), "want a plain value without a tag")
	return false
}

// elements are the elements of a list that is not empty, or n itself as the only
// one where that is allowed.
func (d *decoder) elements(n *node, field, want string, orOne bool) []*node {
	if n.Kind != yaml.SequenceNode {
		if orOne && kind(n) != "nothing" {
			return []*node{n}
		}
		d.fail(n, field, value(n), "%s", want)
		return nil
	}
	d.untagged(n, field)
	if len(n.Content) == 0 {
		d.fail(n, field, "an empty list", "%s", want)
	}
	var es []*node
	for _, e := range n.Content {
		if d.spent() {
			break
		}
		es = append(es, d.follow(e))
	}
	return es
}

// scalar is the text of a value of any type but nothing.
func (d *decoder) scalar(n *node, field, want string) (string, bool) {
	if kind(n) != "a value" {
		d.fail(n, field, value(n), "%s", want)
		return "", false
	}
	return n.Value, d.untagged(n, field)
}

// text is a text that is not empty.
func (d *decoder) text(n *node, field, want string) (string, bool) {
	s, ok := d.scalar(n, field, want)
	switch {
	case !ok:
		return "", false
	case n.Tag != "!!str":
		d.fail(n, field, value(n), "%s, as text: put it in quotes", want)
		return "", false
	case s == "":
		d.fail(n, field, `""`, "%s", want)
		return "", false
	}
	return s, true
}

// integer is a whole number.
func (d *decoder) integer(n *node, field string, least, most int64) (int64, bool) {
	want := fmt.Sprintf("want a whole number from %d to %d", least, most)
	s, ok := d.scalar(n, field, want)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if n.Tag != "!!int" || err != nil || len(s) > 1 && s[0] == '0' || i < least || i > most {
		d.fail(n, field, value(n), "%s", want)
		return 0, false
	}
	return i, true
}

// boolean is true or false.
func (d *decoder) boolean(n *node, field string) bool {
	s, ok := d.scalar(n, field, "want true or false")
	if ok && (n.Tag != "!!bool" || s != "true" && s != "false") {
		d.fail(n, field, value(n), "want true or false")
	}
	return s == "true"
}

// duration is a time from least to most.
func (d *decoder) duration(n *node, field string, least, most time.Duration) time.Duration {
	want := fmt.Sprintf("want a time such as 30s, from %v to %v", least, most)
	s, ok := d.scalar(n, field, want)
	if !ok {
		return 0
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < least || t > most || n.Tag != "!!str" {
		d.fail(n, field, value(n), "%s", want)
		return 0
	}
	return t
}
