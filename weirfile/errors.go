package weirfile

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
	File   string // the name given to Parse
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

// Errors are the faults of a file, in its order.
type Errors []*Error

// maxErrors is how many faults are told of one file; the rest are counted.
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

// sorted is e in the order of the file, cut to maxErrors.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	e = slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
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

// meant is what a misspelled name was probably meant to be, or "".
func meant(name string, known []string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, k := range known {
		if n := edits(strings.ToLower(name), k, least); n < least {
			best, least = k, n
		}
	}
	if best == "" && len(name) >= 3 {
		for _, k := range known {
			if strings.HasPrefix(k, name) || strings.HasPrefix(name, k) {
				return k
			}
		}
	}
	return best
}

// edits is the number of insertions, deletions, changes and swaps of neighbours that
// make a into b, or any number from most on if it is at least that.
func edits(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
