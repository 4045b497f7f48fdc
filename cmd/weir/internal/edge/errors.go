package edge

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir"
)

// An Error is one thing that nginx cannot do as Weir does. It wraps weir.ErrInvalid.
type Error struct {
	Policy string // the name of the policy; "" if it is none's
	Field  string // in the terms of the policy file, such as "cost.json"
	Value  string // what the field holds, quoted if it is text; "" if nothing
	Want   string // what is wrong, and what to do
}

// Error is `edge: policy "name": field: value: what was expected`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("edge: ")
	if e.Policy != "" {
		fmt.Fprintf(&b, "policy %s: ", quoted(e.Policy))
	}
	b.WriteString(e.Field + ": ")
	if e.Value != "" {
		b.WriteString(e.Value + ": ")
	}
	b.WriteString(e.Want)
	return b.String()
}

// Unwrap is weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

// Errors are all faults at once.
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

// elsewhere is what to do about a policy that nginx cannot decide.
const elsewhere = "put this policy behind /v1/auth, see docs/nginx.md"

// maxErrors is how many faults are told.
const maxErrors = 50

// faults collects errors.
type faults struct {
	policy string // that is looked at
	errs   Errors
}

func (f *faults) add(field, value, want string, args ...any) {
	if len(f.errs) < maxErrors {
		f.errs = append(f.errs, &Error{Policy: f.policy, Field: field, Value: value, Want: fmt.Sprintf(want, args...)})
	}
}

func (f *faults) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return f.errs
}

// quoted is s in quotes, cut to a length that fits a line.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, s, len(s))
	}
	return fmt.Sprintf("%q", s)
}
