package problem

import (
	"fmt"
	"net/http"
	"strings"
)

// A FieldError reports an invalid part of a request.
type FieldError struct{ Field, Value, Expected string }

// Invalid returns a FieldError with the beginning of value.
func Invalid(field, value, expected string) *FieldError {
	if value = Shorten(value); value == "" {
		value = "nothing"
	}
	return &FieldError{field, value, expected}
}

// Error implements error.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Value, e.Expected)
}

// Write sends e as a problem document.
func (e *FieldError) Write(w http.ResponseWriter, status int) {
	Write(w, Problem{Status: status, Detail: e.Error(), Field: e.Field, Value: e.Value, Expected: e.Expected})
}

const maxValue = 80 // bytes

// Shorten returns the beginning of a client's text, as valid UTF-8.
func Shorten(s string) string {
	if len(s) > maxValue {
		return strings.ToValidUTF8(s[:maxValue], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
