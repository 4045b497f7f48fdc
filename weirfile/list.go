package weirfile

import (
	"bytes"
	"runtime"

	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/internal/table"
	"github.com/floodweir/weir/weirfile/strict"
)

// pieceSize is the least number of bytes of a file of overrides that are parsed at once: the values of
// a whole file need many times its memory.
const pieceSize = 8 << 10

const wantListFile = "want a list of overrides: each begins a line with a dash and a space, as - { key: k1, limits: 10/s }"

// A listReader reads a YAML list of overrides in pieces. Each element begins with a dash at one
// indentation, at the start of a line, as no line within an element does.
type listReader struct {
	*policyReader
	source
	field string
	of    *grammar.Shape

	overrides []policy.Override
}

// A source is a text with overrides: a file that the policy file names, or a block.
type source struct {
	name   string
	data   []byte // nil for CSV
	before int    // lines before the text in its file
	dash   string // what each element begins with: spaces and a dash
	marks  []mark // of each override
}

// A mark is the start of the line of an override.
type mark struct{ line, at int32 }

// read reads the text of the source.
func (l *listReader) read() {
	for data, line := l.data, l.before; len(data) > 0 && !l.Spent() && len(l.overrides) < table.MaxRows; {
		piece := data
		if i := nextElement(data, pieceSize, l.dash); i >= 0 {
			piece = data[:i]
		}
		if !l.piece(piece, line, len(l.data)-len(data)) {
			return
		}
		line += bytes.Count(piece, []byte("\n"))
		data = data[len(piece):]
	}
	if len(l.overrides) == 0 && !l.Spent() {
		l.FailFile(l.name, l.before+1, 1, l.field, "", wantListFile)
	}
}

// nextElement returns the position of the first element that begins from a byte on, or -1.
func nextElement(data []byte, from int, dash string) int {
	for i := from; i < len(data); {
		if i = lineEnd(data, i); bytes.HasPrefix(data[i:], []byte(dash)) {
			return i
		}
	}
	return -1
}

// piece reads elements of the list, which stand behind a number of lines and at a position of the
// text. It reports whether they are a list.
func (l *listReader) piece(text []byte, before, at int) bool {
	d := l.decode(l.policyReader, text, before)
	root := d.Root()
	list := root.There() && root.Kind() == strict.List
	if root.There() && !list {
		d.Fail(root, l.field, root.String(), "%s", wantListFile)
	}
	if list {
		for i, n := range d.List(root) {
			clear(d.places)
			if i%100 == 99 {
				runtime.Gosched() // as in a table
			}
			for start := 0; before+1 < n.Line() && start < len(text); before++ {
				start = lineEnd(text, 0)
				text, at = text[start:], at+start
			}
			l.marks = append(l.marks, mark{int32(n.Line()), int32(at)})
			l.overrides = append(l.overrides, d.override(place{n, strict.Index(l.field, len(l.overrides)), l.of}))
		}
	}
	l.parsed, l.shared = d.parsed, d.shared
	if !root.There() {
		l.broken = true
	}
	for _, f := range d.Errors() {
		field := f.Field
		if field == "" {
			field = l.field
		}
		l.FailFile(l.name, f.Line, f.Column, field, f.Value, f.Want)
	}
	return list
}

// decode parses a part of a source for a policy.
func (s *source) decode(r *policyReader, text []byte, before int) *policyReader {
	d := &decoder{parsed: r.parsed, shared: r.shared, Document: strict.Parse(s.name, text, strict.Config{
		MaxSize: table.MaxSize, Empty: wantListFile, Before: before,
	})}
	return &policyReader{decoder: d, field: r.field, unit: r.unit, places: map[string]strict.Node{}}
}

// position returns the line and the column of a field of override i, by the name within the policy.
func (l *listReader) position(i int, field string) (line, column int) {
	m := l.marks[i]
	if l.data == nil {
		return int(m.line), 1
	}
	text := l.data[m.at:]
	if end := nextElement(text, 0, l.dash); end >= 0 {
		text = text[:end]
	}
	r := l.decode(l.policyReader, text, int(m.line)-1)
	for _, n := range r.List(r.Root()) {
		r.override(place{n, strict.Index(l.field, i), l.of})
	}
	if n := r.places[field]; n.There() {
		return n.Line(), n.Column()
	}
	for f := range outer(field) {
		if n := r.places[f]; n.There() {
			return n.Line(), n.Column()
		}
	}
	return int(m.line), 1
}
