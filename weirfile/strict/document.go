package strict

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// maxAliased is the number of values that aliases may add to a file, so that aliases of
// aliases of lists do not make a small file a large one.
const maxAliased = 100_000

// A Config sets what a file may contain. The zero Config accepts files of at most 4 MiB
// and is as strict as possible.
type Config struct {
	// MaxSize is the maximum size of the file in bytes; 4 MiB if zero.
	MaxSize int

	// Empty is the error of an empty file; a general text if "".
	Empty string

	// Before is the number of lines before the text in its file, if it is a part of one.
	Before int

	// Loose accepts what a program accepts that decodes YAML into a struct. Merge keys
	// (<<) add the fields that a map does not have itself. A null field counts as
	// absent. Tags are allowed, and names of a map of any names may be numbers.
	Loose bool
}

// A Document is a file and the faults that were found in it so far.
type Document struct {
	config Config
	name   string
	data   []byte
	lines  []string // of data, once they are asked for
	root   Node
	errs   Errors
	budget int    // of values that may still be looked at
	bomb   *Error // that it ran out
}

// Parse reads data, the content of the file name.
func Parse(name string, data []byte, c Config) *Document {
	if c.MaxSize == 0 {
		c.MaxSize = 4 << 20
	}
	if c.Empty == "" {
		c.Empty = "want a value, got an empty file"
	}
	d := &Document{config: c, name: name, data: data}
	d.root = d.parse()
	return d
}

// parse returns the root of the one document of the file, or none if it has faults.
func (d *Document) parse() Node {
	if most := d.config.MaxSize; len(d.data) > most {
		d.failText(1, 1, fmt.Sprintf("more than %d bytes", most), fmt.Sprintf("want a file of at most %d bytes", most))
		return Node{}
	}
	if i, what := foreign(d.data); what != "" {
		line, column := lineOf(d.data, i)
		d.failText(line, column, what, "want text in UTF-8 without control characters")
		return Node{}
	}
	var doc yaml.Node
	if err := yaml.Load(d.data, &doc); err != nil {
		d.syntax(err)
		return Node{}
	}
	if len(doc.Content) != 1 {
		d.failText(1, 1, "", d.config.Empty)
		return Node{}
	}
	d.budget = 2*size(&doc) + maxAliased // a caller may look at a value twice
	if d.config.Before > 0 {
		shift(&doc, d.config.Before)
	}
	root := d.follow(doc.Content[0])
	if root.Kind() == Null {
		d.failText(1, 1, "", d.config.Empty)
		return Node{}
	}
	return root
}

// size returns the number of values in the file without aliases.
func size(n *yaml.Node) int {
	all := 1
	for _, c := range n.Content {
		all += size(c)
	}
	return all
}

// shift moves all values down by a number of lines.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines)
	}
}

// follow resolves n if it is an alias.
func (d *Document) follow(n *yaml.Node) Node {
	if d.budget--; d.budget == 0 {
		d.bomb = &Error{
			File: d.name, Line: n.Line, Column: n.Column, Want: fmt.Sprintf("want fewer aliases: they add more than %d values to the file", maxAliased),
		}
	}
	if n.Kind == yaml.AliasNode {
		return Node{n.Alias, n.Alias, n} // an anchor stands at a value, never at an alias
	}
	return Node{n, n, n}
}

// Name returns the name of the file.
func (d *Document) Name() string { return d.name }

// Root returns the value of the whole file, or none if the file could not be read.
func (d *Document) Root() Node { return d.root }

// Fail reports a fault at n: the value found, and the values that are accepted, which
// is a format for args.
func (d *Document) Fail(n Node, field, value, want string, args ...any) {
	d.FailAt(n.Line(), n.Column(), field, value, fmt.Sprintf(want, args...))
}

// FailAt reports a fault at a line and column.
func (d *Document) FailAt(line, column int, field, value, want string) {
	d.errs = append(d.errs, &Error{
		File: d.name, Line: max(1, line), Column: max(1, column), Field: field, Value: value, Want: want,
	})
}

// failText reports a fault at a line and column of the text.
func (d *Document) failText(line, column int, value, want string) {
	d.FailAt(d.config.Before+line, column, "", value, want)
}

// FailFile reports a fault in another file, which this one includes.
func (d *Document) FailFile(file string, line, column int, field, value, want string) {
	d.FailAt(line, column, field, value, want)
	d.errs[len(d.errs)-1].File = file
}

// Spent reports whether to stop reading: there are enough faults, or too many aliases.
func (d *Document) Spent() bool { return d.budget <= 0 || len(d.errs) >= enough }

// Faults returns the faults found so far, in the order of their discovery. The caller
// must not change them.
func (d *Document) Faults() Errors { return d.errs }

// Errors returns the faults of the file, in its order. If there are too many aliases,
// that is the only fault, since the rest of the file was not read.
func (d *Document) Errors() Errors {
	if d.bomb != nil {
		return Errors{d.bomb}
	}
	return d.errs.Sorted()
}
