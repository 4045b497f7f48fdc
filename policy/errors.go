package policy

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/floodweir/weir"
)

// An Error is one fault of a Config. It wraps weir.ErrInvalid.
type Error struct {
	Policy string // the name of the policy; "" for one that has none
	Field  string // in the terms of the policy file, such as "match.paths[0]"
	Value  string // what the field holds, quoted if it is text; "" if nothing
	Want   string // what was expected
}

// Error is `policy "name": field: value: what was expected`.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s: %s: ", quoted(e.Policy), printable(e.Field))
	if e.Value != "" {
		b.WriteString(e.Value + ": ")
	}
	b.WriteString(e.Want)
	return b.String()
}

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

// Errors are all faults of a Config, in the order of its fields.
type Errors []*Error

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

// faults collects the errors of one policy.
type faults struct {
	policy string
	errs   Errors
}

func (f *faults) add(field, value, want string, args ...any) {
	f.errs = append(f.errs, &Error{Policy: f.policy, Field: field, Value: value, Want: fmt.Sprintf(want, args...)})
}

// quoted is s in quotes, cut to a length that fits a line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, s, len(s))
	}
	return fmt.Sprintf("%q", s)
}

// many is a number of things, in words.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// printable is a field that keeps to one line, whatever a header is called.
func printable(field string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, field)
}
