package weirfile

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/internal/table"
	"github.com/floodweir/weir/weirfile/strict"
)

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
	r.tableName = inDir(r.Name(), name)
	data, err := r.read(r.tableName)
	if err != nil {
		r.failIn(p, strict.Quoted(name), "want a CSV file: %s", strict.Printable(strings.TrimPrefix(err.Error(), "weirfile: ")))
		return
	}
	rows := table.Reader{
		Key: c.Key,
		Limit: func(text string) (weir.Limit, string) {
			l, err := weir.ParseLimit(text)
			if err != nil {
				return l, plainError(err, text)
			}
			return l, ""
		},
		Fail: func(line, column int, field, value, want string) bool {
			r.FailFile(r.tableName, line, column, r.at("overrides"+field), value, want)
			return !r.Spent()
		},
	}
	t := rows.Read(data)
	c.Overrides, r.tableLines = t.Overrides, t.Lines
}

// inDir returns the path of a file that the file at path names.
func inDir(path, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(path), name)
}

// inTable returns the line of a field in the table of the overrides, if it has one.
func (r *policyReader) inTable(field string) (line int, ok bool) {
	index, _, _ := strings.Cut(strings.TrimPrefix(field, "overrides["), "]")
	i, err := strconv.Atoi(index)
	if err != nil || !strings.HasPrefix(field, "overrides[") || i >= len(r.tableLines) {
		return 0, false
	}
	return int(r.tableLines[i]), true
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
			names = append(names, inDir(path, name.Text()))
		}
	}
	return names
}
