package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// The fields that are the same for all, so that they cost no allocation.
var (
	jsonType   = []string{"application/json"}
	noStore    = []string{"no-store"}
	nosniff    = []string{"nosniff"}
	closedCSP  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noReferrer = []string{"same-origin"}
)

// guardFields sets what every answer says, until the answer says otherwise.
func guardFields(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = closedCSP
	h["Referrer-Policy"] = noReferrer
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away needs no answer
}

// refuse answers with a fault of the request.
func (f *fault) refuse(w http.ResponseWriter) {
	layers.Refusal{Reason: layers.Invalid, Status: f.status, Detail: f.detail, Field: f.field}.Write(w)
}

// say answers with a reason alone.
func say(w http.ResponseWriter, reason sale.Reason) { layers.Refusal{Reason: reason}.Write(w) }

// notAllowed answers to a method that a place does not have.
func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	(&fault{status: http.StatusMethodNotAllowed, detail: "want one of the methods " + allow}).refuse(w)
}

// failure is the refusal that stands for an error of a desk. known says that it is one of
// those that a desk says.
func failure(err error) (f layers.Refusal, known bool) {
	switch {
	case errors.Is(err, sale.ErrNotFound):
		return layers.Refusal{Reason: layers.NotFound}, true
	case errors.Is(err, sale.ErrInvalid):
		detail := said(err, sale.ErrInvalid)
		return layers.Refusal{Reason: layers.Invalid, Detail: detail, Field: fieldOf(detail)}, true
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

// origin reports whether a request that changes something was asked for on a page of this
// site: no other site can make a browser send it so.
func ownPage(h http.Header) bool {
	return h.Get("Flashsale-Request") == "1" || h.Get("Sec-Fetch-Site") == "same-origin"
}
