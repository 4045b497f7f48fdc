package weirfile

import (
	"bytes"
	"fmt"
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

// A listReader reads a YAML file with a list of overrides in pieces. Each element begins with a
// dash at the start of a line, as no line within an element does.
type listReader struct {
	*policyReader
	name  string
	field string
	of    *grammar.Shape

	overrides []policy.Override
	lines     []int32 // of each override
}

func (l *listReader) read(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(data) > table.MaxSize {
		l.FailFile(l.name, 1, 1, l.field, fmt.Sprintf("more than %d bytes", table.MaxSize), fmt.Sprintf("want a file of at most %d bytes", table.MaxSize))
		return
	}
	for line := 0; len(data) > 0 && !l.Spent() && len(l.overrides) < table.MaxRows; {
		piece := data
		if i := nextElement(data, pieceSize); i >= 0 {
			piece = data[:i]
		}
		if !l.piece(piece, line) {
			return
		}
		line += bytes.Count(piece, []byte("\n"))
		data = data[len(piece):]
	}
	if len(l.overrides) == 0 && !l.Spent() {
		l.FailFile(l.name, 1, 1, l.field, "", wantListFile)
	}
}

// nextElement returns the position of the first element that begins from a byte on, or -1.
func nextElement(data []byte, from int) int {
	for i := from; i < len(data); {
		end := bytes.IndexByte(data[i:], '\n')
		if end < 0 {
			return -1
		}
		if i += end + 1; bytes.HasPrefix(data[i:], []byte("- ")) {
			return i
		}
	}
	return -1
}

// piece reads elements of the list, which stand behind a number of lines. It reports whether they
// are a list.
func (l *listReader) piece(text []byte, before int) bool {
	d := &decoder{parsed: l.parsed, shared: l.shared, Document: strict.Parse(l.name, text, strict.Config{MaxSize: table.MaxSize, Empty: wantListFile})}
	r := &policyReader{decoder: d, field: l.policyReader.field, unit: l.unit, places: map[string]strict.Node{}}
	root := d.Root()
	list := root.There() && root.Kind() == strict.List
	if root.There() && !list {
		d.Fail(root, l.field, root.String(), "%s", wantListFile)
	}
	if list {
		for i, n := range d.List(root) {
			clear(r.places)
			if i%100 == 99 {
				runtime.Gosched() // as in a table
			}
			l.lines = append(l.lines, int32(before+n.Line()))
			l.overrides = append(l.overrides, r.override(place{n, strict.Index(l.field, len(l.overrides)), l.of}))
		}
	}
	l.parsed, l.shared = d.parsed, d.shared
	for _, f := range d.Errors() {
		field := f.Field
		if field == "" {
			field = l.field
		}
		l.FailFile(l.name, before+f.Line, f.Column, field, f.Value, f.Want)
	}
	return list
}
