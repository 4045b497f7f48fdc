package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// Failure is the refusal that stands for an error of a desk. known says that it is one of
// those that a desk says.
func Failure(err error) (f layers.Refusal, known bool) {
	switch {
	case errors.Is(err, sale.ErrNotFound):
		return layers.Refusal{Reason: layers.NotFound}, true
	case errors.Is(err, sale.ErrInvalid):
		detail := said(err, sale.ErrInvalid)
		return layers.Refusal{Reason: layers.Invalid, Detail: detail, Field: FieldOf(detail)}, true
	case errors.Is(err, sale.ErrConflict):
		return layers.Refusal{Reason: layers.Conflict, Detail: said(err, sale.ErrConflict)}, true
	case errors.Is(err, sale.ErrUnavailable), errors.Is(err, sale.ErrStale),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return layers.Refusal{Reason: layers.Unavailable, RetryAfter: time.Second}, true
	}
	return layers.Refusal{Reason: layers.Unavailable, RetryAfter: time.Second}, false
}

// said is the text of err for people: without the words that its kind adds to it, and
// without the packages and doings before them, which are one small word each.
func said(err, kind error) string {
	before, after, found := strings.Cut(err.Error(), kind.Error())
	if !found {
		before, after = "", before
	}
	var parts []string
	for part := range strings.SplitSeq(before, ": ") {
		if strings.ContainsFunc(part, func(r rune) bool { return r < 'a' || r > 'z' }) {
			parts = append(parts, part)
		}
	}
	if after = strings.TrimPrefix(after, ": "); after != "" {
		parts = append(parts, strings.ReplaceAll(after, kind.Error()+": ", ""))
	}
	return short(strings.Join(parts, ": "), 400)
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

// draftFields are the fields of a draft, by their names in JSON and in package sale.
func draftFields() [][2]string {
	return [][2]string{
		{"sku", "SKU"}, {"title", "Title"}, {"price", "Price"}, {"currency", "Currency"}, {"stock", "Stock"},
		{"per_user", "PerUser"}, {"starts_at", "StartsAt"}, {"ends_at", "EndsAt"}, {"headroom", "Headroom"},
		{"queue", "Queue"}, {"lobby_ms", "Lobby"}, {"pay_within_ms", "PayWithin"}, {"token_for_ms", "TokenFor"},
		{"work", "Work"},
	}
}

// FieldOf finds the field of a draft or a contact that a refusal is about: the first word of
// its text that names one.
func FieldOf(detail string) string {
	fields := append(draftFields(), [2]string{"name", "name"}, [2]string{"phone", "phone"})
	words := strings.FieldsFunc(detail, func(r rune) bool { return strings.ContainsRune(" :,.()\"", r) })
	for _, w := range words {
		i := slices.IndexFunc(fields, func(f [2]string) bool {
			return w == f[0] || w == f[1] || w == strings.TrimSuffix(f[0], "_ms") || strings.EqualFold(w, f[1])
		})
		if i >= 0 {
			return fields[i][0]
		}
	}
	return ""
}
