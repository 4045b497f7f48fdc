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
	field := strings.TrimSuffix(strings.TrimPrefix(p.field, r.field+"."), ".file")
	name = inDir(r.Name(), name)
	data, err := r.read(name)
	if err != nil {
		r.failIn(p, p.node.String(), "want a CSV file: %s", strict.Printable(strings.TrimPrefix(err.Error(), "weirfile: ")))
		return
	}
	rows := table.Reader{
		Key:   c.Key,
		Limit: func(text string) (weir.Limit, string) { return limitIn(r.unit, text) },
		Fail: func(line, column int, of, value, want string) bool {
			r.FailFile(name, line, column, r.at(field+of), value, want)
			return !r.Spent()
		},
	}
	t := rows.Read(data)
	if r.tables == nil {
		r.tables = map[string]source{}
	}
	c.Overrides, r.tables[field] = t.Overrides, source{name, t.Lines}
}

// inDir returns the path of a file that the file at path names.
func inDir(path, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(path), name)
}

// inTable returns the file and the line of a field in a table of overrides, if it has one.
func (r *policyReader) inTable(field string) (name string, line int, ok bool) {
	for of, t := range r.tables {
		rest, found := strings.CutPrefix(field, of+"[")
		index, _, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(index); found && err == nil && i < len(t.lines) {
			return t.name, int(t.lines[i]), true
		}
	}
	return "", 0, false
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
