package sale

import (
	"fmt"
	"strings"
)

// FieldError reports one field whose value is not accepted. It matches ErrInvalid.
type FieldError struct {
	Field string // the field's name in JSON, without a unit such as _ms
	Value string // the value, shortened and quoted where it is text
	Want  string // the accepted values
}

// Error returns the field, the value and the accepted values.
func (e *FieldError) Error() string { return ErrInvalid.Error() + ": " + e.Detail() }

// Detail returns the text of Error without the prefix of ErrInvalid.
func (e *FieldError) Detail() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Value, e.Want)
}

// Is reports whether target is ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// FieldErrors returns every FieldError that err wraps, in order.
func FieldErrors(err error) []*FieldError {
	switch e := err.(type) {
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() error }:
		return FieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*FieldError
		for _, one := range e.Unwrap() {
			all = append(all, FieldErrors(one)...)
		}
		return all
	}
	return nil
}

// fieldErrors is the error of Validate. errors.As finds its first FieldError.
type fieldErrors []error

func (f *fieldErrors) check(ok bool, field, value, want string) {
	if !ok {
		*f = append(*f, &FieldError{field, value, want})
	}
}

func (f fieldErrors) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f fieldErrors) Error() string {
	details := make([]string, len(f))
	for i, e := range f {
		details[i] = e.(*FieldError).Detail()
	}
	return ErrInvalid.Error() + ": " + strings.Join(details, "; ")
}

func (f fieldErrors) Unwrap() []error { return f }
