package ratelimit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/floodweir/weir"
)

// An Error is one fault of a file. It wraps weir.ErrInvalid.
type Error struct {
	File   string
	Line   int    // from 1
	Column int    // from 1
	Field  string // such as "descriptors[2].rate_limit.unit"; "" for the file as a whole
	Value  string // what the file says there, quoted if it is text and shortened; "" if nothing
	Want   string // what was expected
}

// Error is "file:line:column: field: value: what was expected".
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		b.WriteString(printable(e.Field) + ": ")
	}
	if e.Value != "" {
		b.WriteString(e.Value + ": ")
	}
	b.WriteString(e.Want)
	return b.String()
}

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

// Errors are the faults of all files, in their order.
type Errors []*Error

// maxErrors is how many faults are told; the rest are counted.
const maxErrors = 200

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

// sorted is e, the faults of one file, in its order.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
}

// cut is e, with no more than maxErrors of them.
func (e Errors) cut() Errors {
	if more := len(e) - maxErrors; more > 0 {
		last := e[maxErrors-1]
		e = append(e[:maxErrors], &Error{
			File: last.File, Line: last.Line, Column: last.Column, Want: fmt.Sprintf("and at least %d more faults", more),
		})
	}
	return e
}

// printable is text of a file that keeps to one line and a sensible length.
func printable(text string) string {
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

// quoted is s in quotes, cut to a length that fits a line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, s, len(s))
	}
	return fmt.Sprintf("%q", s)
}
