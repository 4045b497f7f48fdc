package weirfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// MaxTable is the maximum size of a file of overrides, in bytes.
const MaxTable = 16 << 20

// maxRows is the number of overrides after which a table is not read further: one more than a
// policy accepts.
const maxRows = 100_001

// A table is a file of overrides.
type table struct {
	name  string
	lines []int32 // of each override
}

// An allowance holds the limits of a cell.
type allowance struct {
	limits           []weir.Limit
	block, unlimited bool
	want             string // if it is invalid
}

// table reads the overrides of a policy from the CSV file that p names.
func (r *policyReader) table(p place, c *policy.Config) {
	name, ok := r.text(p)
	switch {
	case !ok || len(c.Key) == 0: // a missing key is a fault already
		return
	case r.read == nil:
		r.failIn(p, strict.Quoted(name), "want a list of overrides here: only a policy file on disk can name another file")
		return
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.Name()), name)
	}
	data, err := r.read(name)
	if err != nil {
		r.failIn(p, strict.Quoted(p.node.Text()), "want a CSV file: %s", strict.Printable(strings.TrimPrefix(err.Error(), "weirfile: ")))
		return
	}
	r.from = &table{name: name}
	r.rows(bytes.TrimPrefix(data, []byte("\ufeff")), c)
}

// rows reads the rows of r.from: a value for each part of the key, and limits.
func (r *policyReader) rows(data []byte, c *policy.Config) {
	switch {
	case len(data) > MaxTable:
		r.failRow(1, "", fmt.Sprintf("more than %d bytes", MaxTable), fmt.Sprintf("want a file of at most %d bytes", MaxTable))
		return
	case !utf8.Valid(data):
		r.failRow(1, "", "", "want text in UTF-8")
		return
	}
	rows := csv.NewReader(bytes.NewReader(data))
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil || !r.header(header, c) {
		r.failRow(1, "", strict.Quoted(strings.Join(header, ",")), "want the columns "+strings.Join(columns(c), ",")+" in the first line")
		return
	}
	parts := len(c.Key)
	known := map[string]*allowance{} // most overrides have one of a few limits
	var keys []string                // of many overrides, in one allocation
	for len(c.Overrides) < maxRows && !r.Spent() {
		row, err := rows.Read()
		if err != nil {
			if e := (*csv.ParseError)(nil); errors.As(err, &e) {
				r.FailFile(r.from.name, e.Line, e.Column, r.field+".overrides", "", fmt.Sprintf("want CSV with %d columns: %v", parts+1, e.Err))
			} else if err != io.EOF {
				r.failRow(1, "", "", err.Error())
			}
			return
		}
		line, _ := rows.FieldPos(0)
		index := "[" + strconv.Itoa(len(c.Overrides)) + "]"
		if len(keys) < parts {
			keys = make([]string, 1024*parts)
		}
		o := policy.Override{Key: keys[:parts:parts]}
		keys = keys[parts:]
		for i, value := range row[:parts] {
			if o.Key[i] = value; value == "" {
				r.failRow(line, index+".key["+strconv.Itoa(i)+"]", `""`, "want a value, or * for any; a list of overrides can name a missing value")
			}
		}
		a := known[row[parts]]
		if a == nil {
			a = allowanceOf(row[parts])
			known[strings.Clone(row[parts])] = a
		}
		if a.want != "" {
			r.failRow(line, index+".limits", strict.Quoted(row[parts]), a.want)
		}
		o.Limits, o.Block, o.Unlimited = a.limits, a.block, a.unlimited
		c.Overrides = append(c.Overrides, o)
		r.from.lines = append(r.from.lines, int32(line))
	}
}

// failRow reports a fault in a line of the table.
func (r *policyReader) failRow(line int, field, value, want string) {
	r.FailFile(r.from.name, line, 1, r.at("overrides"+field), value, want)
}

// columns returns the names of the columns of a table.
func columns(c *policy.Config) (names []string) {
	for _, k := range c.Key {
		names = append(names, k.String())
	}
	return append(names, "limits")
}

// header reports whether the columns are those of the key. A key with one part may have the
// name key.
func (r *policyReader) header(row []string, c *policy.Config) bool {
	want := columns(c)
	if len(row) != len(want) {
		return false
	}
	for i, name := range row {
		if name = strings.TrimSpace(name); name != want[i] && (i > 0 || len(row) != 2 || name != "key") {
			return false
		}
	}
	return true
}

// allowanceOf reads a cell of limits, which semicolons separate, 0 or unlimited.
func allowanceOf(cell string) *allowance {
	a := &allowance{}
	switch text := strings.TrimSpace(cell); text {
	case "0":
		a.block = true
		return a
	case "unlimited":
		a.unlimited = true
		return a
	}
	for text := range strings.SplitSeq(cell, ";") {
		text = strings.TrimSpace(text)
		l, err := weir.ParseLimit(text)
		if err != nil {
			a.want = plainError(err, text)
			return a
		}
		a.limits = append(a.limits, l)
	}
	return a
}

// place returns the line in the table of an error of package policy.
func (t *table) place(field string) (line int, ok bool) {
	index, ok := strings.CutPrefix(field, "overrides[")
	if t == nil || !ok {
		return 0, false
	}
	index, _, _ = strings.Cut(index, "]")
	i, err := strconv.Atoi(index)
	if err != nil || i >= len(t.lines) {
		return 0, false
	}
	return int(t.lines[i]), true
}

// Includes returns the names of the files that the policy file at path includes, whether they
// exist or not. It returns none for a file that cannot be read or is no YAML.
func Includes(path string) (names []string) {
	data, err := read(path, MaxSize)
	if err != nil || !bytes.Contains(data, []byte("file")) {
		return nil
	}
	d := strict.Parse(path, data, strict.Config{MaxSize: MaxSize, Loose: true})
	of := func(n strict.Node, name string) (v strict.Node) {
		if n.There() && n.Kind() == strict.Map {
			m, _ := d.Map(n, "", nil)
			v = m.Values[name]
		}
		return v
	}
	policies := of(d.Root(), "policies")
	if !policies.There() || policies.Kind() != strict.List {
		return nil
	}
	for _, p := range d.List(policies) {
		if name := of(of(p, "overrides"), "file"); name.There() && name.Kind() == strict.Text {
			if names = append(names, name.Text()); !filepath.IsAbs(name.Text()) {
				names[len(names)-1] = filepath.Join(filepath.Dir(path), name.Text())
			}
		}
	}
	return names
}
