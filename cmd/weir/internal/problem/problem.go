// Package problem writes RFC 9457 problem documents, the one form in which the
// doors of the program report what went wrong.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A Problem is a problem document. Title is the text of Status if empty; the
// other fields are left out when empty.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// Field, Value and Expected say which part of a request was refused, what it
	// was and what would have been accepted.
	Field    string `json:"field,omitempty"`
	Value    string `json:"value,omitempty"`
	Expected string `json:"expected,omitempty"`
}

// Write sends p as the answer. Headers that describe another body are removed;
// all others that are already set stay.
func Write(w http.ResponseWriter, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and an int always marshal
		body = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	body = append(body, '\n')
	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("ETag")
	h.Del("Last-Modified")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	w.Write(body)
}
