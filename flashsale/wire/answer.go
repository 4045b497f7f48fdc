package wire

import (
	"net/http"
	"strings"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// Header values that all responses share, so that they need no allocation.
var (
	jsonType   = []string{"application/json"}
	noStore    = []string{"no-store"}
	nosniff    = []string{"nosniff"}
	closedCSP  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noReferrer = []string{"same-origin"}
)

// SetSecurityHeaders sets the default header fields of every response.
func SetSecurityHeaders(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = closedCSP
	h["Referrer-Policy"] = noReferrer
}

// WriteJSON writes a response with a JSON body.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// Refuse writes f as a problem response.
func (f *RequestError) Refuse(w http.ResponseWriter) {
	r := layers.Refusal{Reason: layers.Invalid, Status: f.Status, Detail: f.Detail, Field: f.Field}
	if f.Field != "" {
		_, detail, _ := strings.Cut(f.Detail, ": ")
		r.Errors = []layers.FieldError{{Field: f.Field, Detail: detail, Code: f.Code, Min: f.Min, Max: f.Max}}
	}
	r.Write(w)
}

// RefuseReason writes a problem response with a reason and its default text.
func RefuseReason(w http.ResponseWriter, reason sale.Reason) { layers.Refusal{Reason: reason}.Write(w) }

// NotAllowed writes a 405 response.
func NotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	(&RequestError{Status: http.StatusMethodNotAllowed, Detail: "method: want " + allow}).Refuse(w)
}
