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
		return layers.Refusal{Reason: layers.Invalid, Detail: detailOf(err, sale.ErrInvalid), Field: fieldOf(err)}, true
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

// fieldOf returns the JSON name of the first field that err reports, or an empty string.
func fieldOf(err error) string {
	e, ok := errors.AsType[*sale.FieldError](err)
	switch {
	case !ok:
		return ""
	case e.Field == "lobby", e.Field == "pay_within", e.Field == "token_for":
		return e.Field + "_ms"
	}
	return e.Field
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
