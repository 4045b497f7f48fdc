package nginxconf

import (
	"fmt"
	"strings"
)

// A Directive is one line or block of an nginx.conf.
type Directive struct {
	File  string
	Line  int // from 1, of its name
	Name  string
	Args  []string
	Block []*Directive // of a block; not nil
}

// IsBlock reports whether the directive is a block.
func (d *Directive) IsBlock() bool { return d.Block != nil }

// String returns the directive as written, without its block, shortened if it is long.
func (d *Directive) String() string {
	return short(strings.Join(append([]string{d.Name}, d.Args...), " "))
}

// place returns "file:line".
func (d *Directive) place() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// errorf returns an error about the arguments of a directive.
func (d *Directive) errorf(format string, args ...any) error {
	return &Error{d.File, d.Line, fmt.Sprintf("%s: %s", d, fmt.Sprintf(format, args...))}
}

// Find returns the directives of a name in a block.
func Find(block []*Directive, name string) (all []*Directive) {
	for _, d := range block {
		if d.Name == name {
			all = append(all, d)
		}
	}
	return all
}

// An Error describes a text that nginx would refuse, or that exceeds a bound.
type Error struct {
	File string
	Line int // from 1; 0 for the file as a whole
	Want string
}

// Error returns "nginxconf: file:line: what is wrong".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("nginxconf: %s: %s", e.File, e.Want)
	}
	return fmt.Sprintf("nginxconf: %s:%d: %s", e.File, e.Line, e.Want)
}

// short returns a text shortened to fit a line.
func short(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
