package wire

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// Failure converts an error of a BuyerService or a MerchantService to a refusal. known is
// false if err wraps none of the errors that they document.
func Failure(err error) (f layers.Refusal, known bool) {
	switch {
	case errors.Is(err, sale.ErrNotFound):
		return layers.Refusal{Reason: layers.NotFound}, true
	case errors.Is(err, sale.ErrInvalid):
		return invalid(err), true
	case errors.Is(err, sale.ErrConflict):
		return layers.Refusal{Reason: layers.Conflict, Detail: detailOf(err, sale.ErrConflict)}, true
	case errors.Is(err, sale.ErrUnavailable), errors.Is(err, sale.ErrStale),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return layers.Refusal{Reason: layers.Unavailable, RetryAfter: time.Second}, true
	}
	return layers.Refusal{Reason: layers.Unavailable, RetryAfter: time.Second}, false
}

// detailOf returns the part of err's text after the last occurrence of kind's text: what is
// wrong, without the packages and operations that passed the error on.
func detailOf(err, kind error) string {
	text := err.Error()
	if i := strings.LastIndex(text, kind.Error()); i >= 0 {
		text = strings.TrimPrefix(text[i+len(kind.Error()):], ": ")
	}
	return short(text, 400)
}

// invalid returns the refusal for an error that wraps sale.ErrInvalid.
func invalid(err error) layers.Refusal {
	f := layers.Refusal{Reason: layers.Invalid, Detail: detailOf(err, sale.ErrInvalid)}
	for _, e := range sale.FieldErrors(err) {
		name := e.Field
		if name == "lobby" || name == "pay_within" || name == "token_for" {
			name += "_ms"
		}
		f.Errors = append(f.Errors, layers.FieldError{Field: name, Detail: "got " + e.Value + ", want " + e.Want, Code: e.Code, Min: e.Min, Max: e.Max})
	}
	if len(f.Errors) > 0 {
		f.Field = f.Errors[0].Field
	}
	return f
}

// short is s, or as much of it as n bytes hold of whole characters.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
