package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/floodweir/weir"
)

// An Error is one fault of a file. It wraps weir.ErrInvalid.
type Error struct {
	File   string // the name that it was read under
	Line   int    // from 1
	Column int    // from 1
	Field  string // such as "policies[2].limits[0]"; "" for the file as a whole
	Value  string // what the file says there, quoted if it is text and shortened; "" if nothing
	Want   string // what was expected
}

// Error is "file:line:column: field: value: what was expected".
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		b.WriteString(Printable(e.Field) + ": ")
	}
	if e.Value != "" {
		b.WriteString(e.Value + ": ")
	}
	b.WriteString(e.Want)
	return b.String()
}

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

// Errors are the faults of one file or of several.
type Errors []*Error

const (
	// maxErrors is how many faults are told; the rest are counted.
	maxErrors = 200
	// enough is after how many faults of a file no more are looked for.
	enough = 10 * maxErrors
)

// Error is the errors, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap is the errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// Cut is the first 200 errors, and how many more there are.
func (e Errors) Cut() Errors {
	more := len(e) - maxErrors
	if more <= 0 {
		return e
	}
	last := e[maxErrors-1]
	return append(slices.Clone(e[:maxErrors]), &Error{
		File: last.File, Line: last.Line, Column: last.Column, Want: fmt.Sprintf("and at least %d more faults", more),
	})
}

// sorted is e, the faults of one file, in its order.
func (e Errors) sorted() Errors {
	e = slices.Clone(e)
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
}
