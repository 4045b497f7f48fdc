package sale

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// FieldError reports one field whose value is not accepted. It matches ErrInvalid.
type FieldError struct {
	Field string // the field's name in JSON, without a unit such as _ms
	Value string // the value, shortened and quoted where it is text
	Want  string // the accepted values
	Code  FieldCode

	// Min and Max are the accepted numbers of OutOfRange, and the accepted lengths of WrongLength.
	// Durations are in milliseconds.
	Min, Max int64
}

// FieldCode is the reason of a FieldError. A page has a text for each, in its language.
type FieldCode string

// The reasons of a FieldError.
const (
	WrongForm   FieldCode = "form" // the zero FieldCode means the same
	WrongLength FieldCode = "length"
	OutOfRange  FieldCode = "range"
	HiddenText  FieldCode = "text" // characters that cannot be seen or shown
	NoTime      FieldCode = "time"
	WrongOrder  FieldCode = "order" // ends_at is not after starts_at, or too late
	IsFixed     FieldCode = "fixed" // it cannot change once buyers see the sale
	TooEarly    FieldCode = "early" // ends_at, less than MinNotice ahead
	OnlyMore    FieldCode = "more"  // it can be raised only
	NotUsed     FieldCode = "unused"
	IsTaken     FieldCode = "taken" // another merchant has it
	WrongSecret FieldCode = "secret"
)

// FieldCodes returns all reasons of a FieldError.
func FieldCodes() []FieldCode {
	return []FieldCode{WrongForm, WrongLength, OutOfRange, HiddenText, NoTime, WrongOrder, IsFixed, TooEarly, OnlyMore, NotUsed, IsTaken, WrongSecret}
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

func (f *fieldErrors) check(ok bool, code FieldCode, field, value, want string) {
	if !ok {
		*f = append(*f, &FieldError{Field: field, Value: value, Want: want, Code: code})
	}
}

// text checks a text of 1 to most characters.
func (f *fieldErrors) text(field, s string, most int) {
	switch n := utf8.RuneCountInString(s); {
	case n < 1 || n > most:
		*f = append(*f, &FieldError{field, quote(s), fmt.Sprintf("1 to %d characters, not %d", most, n), WrongLength, 1, int64(most)})
	default:
		want := textFault(s)
		f.check(want == "", HiddenText, field, quote(s), want)
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
