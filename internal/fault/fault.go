// Package fault lists the invalid fields of a configuration.
//
// It is the one implementation behind policy.Errors, strict.Errors, expr.Errors and the
// errors of the program's packages.
package fault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// ErrInvalid is weir.ErrInvalid.
var ErrInvalid = errors.New("invalid")

// MaxShown is the number of errors that Cut keeps.
const MaxShown = 200

// An Error describes one invalid field. It wraps weir.ErrInvalid.
type Error struct {
	File   string // the file, or the package that read the text; "" for a Config in Go
	Line   int    // from 1; 0 if unknown
	Column int    // from 1, in characters; 0 if unknown
	Policy string // the name of the policy; "" for a policy without a name, or for no policy
	Field  string // such as "match.paths[0]"; "" for the whole
	Value  string // the field's value, quoted if it is text and shortened; "" if it has none
	Want   string // the values that are accepted
}

// Error returns "file:line:column: policy: field: value: want", without the parts that
// are empty.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Policy != "" || e.File == "" {
		fmt.Fprintf(&b, "policy %s: ", Quote(e.Policy))
	}
	if e.Field != "" {
		b.WriteString(Printable(e.Field) + ": ")
	}
	if e.Value != "" {
		b.WriteString(e.Value + ": ")
	}
	b.WriteString(e.Want)
	return b.String()
}

// Unwrap returns weir.ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// Errors lists all invalid fields of a configuration.
type Errors []*Error

// Error returns the text of every error, one per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Err returns e as an error, or nil if e is empty.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Sorted returns e by position and without duplicates. The files are in the order of their
// first errors.
func (e Errors) Sorted() Errors {
	e = slices.Clone(e)
	files := map[string]int{}
	for _, one := range e {
		if _, ok := files[one.File]; !ok {
			files[one.File] = len(files)
		}
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
}

// Cut returns the first MaxShown errors and, if there are more, an error with their
// number.
func (e Errors) Cut() Errors {
	more := len(e) - MaxShown
	if more <= 0 {
		return e
	}
	last := e[MaxShown-1]
	return append(slices.Clone(e[:MaxShown]), &Error{
		File: last.File, Line: last.Line, Column: last.Column, Want: fmt.Sprintf("and at least %d more faults", more),
	})
}

// A Collector collects the errors of one configuration.
type Collector struct {
	File   string // of every error
	Policy string // of the errors that are added next
	Max    int    // the number of errors to keep; no limit if 0
	Errs   Errors
}

// Add adds an error, unless there are Max already.
func (c *Collector) Add(field, value, want string, args ...any) {
	if c.Max == 0 || len(c.Errs) < c.Max {
		c.Errs = append(c.Errs, &Error{File: c.File, Policy: c.Policy, Field: field, Value: value, Want: fmt.Sprintf(want, args...)})
	}
}

// Quote returns s in quotes, shortened to fit a line.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, s, len(s))
	}
	return fmt.Sprintf("%q", s)
}

// Printable returns text on one line, without unprintable characters, shortened to 200
// bytes.
func Printable(text string) string {
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
