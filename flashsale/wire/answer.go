package wire

import (
	"net/http"

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

// GuardFields sets what every answer says, until the answer says otherwise.
func SetSecurityHeaders(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = closedCSP
	h["Referrer-Policy"] = noReferrer
}

// Answer writes JSON.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away needs no answer
}

// Refuse answers with a fault of the request.
func (f *RequestError) Refuse(w http.ResponseWriter) {
	layers.Refusal{Reason: layers.Invalid, Status: f.Status, Detail: f.Detail, Field: f.Field}.Write(w)
}

// Say answers with a reason alone.
func RefuseReason(w http.ResponseWriter, reason sale.Reason) { layers.Refusal{Reason: reason}.Write(w) }

// NotAllowed answers to a method that a place does not have.
func NotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	(&RequestError{Status: http.StatusMethodNotAllowed, Detail: "want one of the methods " + allow}).Refuse(w)
}
