package weirfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/internal/table"
	"github.com/floodweir/weir/weirfile/strict"
)

// overrides reads the overrides of a policy: a list, or a file with one.
func (r *policyReader) overrides(p place, c *policy.Config) {
	list := p.shape.As(grammar.List)
	switch {
	case !p.there():
	case p.node.Kind() == strict.List:
		p.shape = list
		if b := r.blocks[p.node.Line()]; b != nil {
			b.read = true
			if len(c.Key) > 0 { // a missing key is a fault already
				readList(r, p.field, list.Of, c, source{name: r.Name(), data: b.text, before: b.before, dash: strings.Repeat(" ", b.indent) + "- "})
			}
			return
		}
	case p.node.Kind() == strict.Map:
		r.record(p)
		if m, _ := r.Map(p.node, p.field, nil); !m.Names["file"].There() {
			r.failIn(p, p.node.String(), "%s", p.shape.Want)
			return
		}
		p.shape = p.shape.As(grammar.Map)
		r.table(r.mapping(p).at("file"), list.Of, c)
		return
	}
	elements := r.elements(p)
	if len(elements) == 0 {
		return
	}
	if r.lists == nil {
		r.lists = map[string][]place{}
	}
	r.lists[strings.TrimPrefix(p.field, r.field+".")] = elements
	places := r.places
	r.places = map[string]strict.Node{}
	for _, e := range elements {
		clear(r.places) // report reads the override of a fault again
		c.Overrides = append(c.Overrides, r.override(e))
	}
	r.places = places
}

// override reads one override. Overrides with equal limits share a slice of them.
func (r *policyReader) override(e place) (o policy.Override) {
	m := r.mapping(r.record(e))
	if p := m.at("key"); p.there() {
		o.Key = r.overrideKey(r.record(p))
	}
	if p := m.at("limits"); p.there() {
		o.Limits, o.Block, o.Unlimited = r.allowance(r.record(p))
	}
	if r.shared == nil {
		r.shared = map[string][]weir.Limit{}
	}
	var key []byte
	for _, l := range o.Limits {
		if l.IsZero() {
			return o
		}
		key = append(append(key, l.String()...), '\n')
	}
	if l, known := r.shared[string(key)]; known {
		o.Limits = l
	} else if len(o.Limits) > 0 {
		r.shared[string(key)] = o.Limits
	}
	return o
}

// table reads the overrides of a policy from the file that p names: CSV, or YAML with a list of the
// shape of.
func (r *policyReader) table(p place, of *grammar.Shape, c *policy.Config) {
	name, ok := r.text(p)
	switch {
	case !ok || len(c.Key) == 0: // a missing key is a fault already
		return
	case r.read == nil:
		r.failIn(p, strict.Quoted(name), "want a list of overrides here: only a policy file on disk can name another file")
		return
	}
	field := strings.TrimSuffix(p.field, ".file")
	name = inDir(r.Name(), name)
	data, err := r.read(name)
	if err != nil {
		r.failIn(p, p.node.String(), "want a CSV or YAML file: %s", strict.Printable(strings.TrimPrefix(err.Error(), "weirfile: ")))
		return
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".yaml" || ext == ".yml" {
		if len(data) > table.MaxSize {
			r.FailFile(name, 1, 1, field, fmt.Sprintf("more than %d bytes", table.MaxSize), fmt.Sprintf("want a file of at most %d bytes", table.MaxSize))
			return
		}
		readList(r, field, of, c, source{name: name, data: bytes.TrimPrefix(data, []byte("\ufeff")), dash: "- "})
		return
	}
	rows := table.Reader{
		Key:   c.Key,
		Limit: func(text string) (weir.Limit, string) { return limitIn(r.unit, text) },
		Fail: func(line, column int, of, value, want string) bool {
			r.FailFile(name, line, column, field+of, value, want)
			return !r.Spent()
		},
	}
	t := rows.Read(data)
	l := &listReader{source: source{name: name}, overrides: t.Overrides}
	for _, line := range t.Lines {
		l.marks = append(l.marks, mark{line: line})
	}
	l.use(r, field, c)
}

// readList reads the overrides of a policy from a source in YAML, whose elements have the shape of.
func readList(r *policyReader, field string, of *grammar.Shape, c *policy.Config, s source) {
	l := &listReader{policyReader: r, source: s, field: field, of: of}
	l.read()
	l.use(r, field, c)
}

// use puts overrides into a policy, in the field with the full name.
func (l *listReader) use(r *policyReader, field string, c *policy.Config) {
	if r.tables == nil {
		r.tables = tables{}
	}
	c.Overrides, r.tables[strings.TrimPrefix(field, r.field+".")] = l.overrides, l
}

// inDir returns the path of a file that the file at path names.
func inDir(path, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(path), name)
}

// find returns the reader of a field and the index of its override, or nil.
func (all tables) find(field string) (l *listReader, i int) {
	for of, l := range all {
		if i, ok := indexIn(field, of); ok && i < len(l.marks) {
			return l, i
		}
	}
	return nil, 0
}

// indexIn returns the index of a field in the list of another, as 2 for "overrides[2].key" in
// "overrides".
func indexIn(field, list string) (i int, ok bool) {
	rest, found := strings.CutPrefix(field, list+"[")
	index, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(index)
	return i, found && err == nil
}

// Includes returns the names of the files that the policy file at path includes, whether they
// exist or not. It returns none for a file that cannot be read or is no YAML.
func Includes(path string) (names []string) {
	data, err := read(path, MaxSize)
	if err != nil || !bytes.Contains(data, []byte("file")) {
		return nil
	}
	text, blocks := cut(data)
	d := strict.Parse(path, text, strict.Config{MaxSize: maxOutside, Loose: true})
	if len(blocks) > 0 && !d.Root().There() {
		d = strict.Parse(path, data, strict.Config{MaxSize: maxOutside, Loose: true})
	}
	of := func(n strict.Node, name string) (v strict.Node) {
		if n.There() && n.Kind() == strict.Map {
			m, _ := d.Map(n, "", nil)
			v = m.Values[name]
		}
		return v
	}
	list := func(n strict.Node) (all []strict.Node) {
		if n.There() && n.Kind() == strict.List {
			for _, e := range d.List(n) {
				all = append(all, e)
			}
		}
		return all
	}
	for _, p := range list(of(d.Root(), "policies")) {
		files := []strict.Node{of(of(of(p, "budget"), "warn"), "secret_file")}
		for _, with := range append(list(of(of(p, "budget"), "levels")), p) {
			files = append(files, of(of(with, "overrides"), "file"))
		}
		for _, name := range files {
			if name.There() && name.Kind() == strict.Text {
				names = append(names, inDir(path, name.Text()))
			}
		}
	}
	return names
}
