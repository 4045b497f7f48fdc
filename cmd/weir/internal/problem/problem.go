// Package problem reads requests and writes errors the same way for every HTTP interface
// of the program. Errors are problem documents (RFC 9457).
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A Problem is a problem document. Title is the text of Status if empty; other empty
// fields are left out.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// Field, Value and Expected name the invalid part of a request, its value and the
	// values that are accepted.
	Field    string `json:"field,omitempty"`
	Value    string `json:"value,omitempty"`
	Expected string `json:"expected,omitempty"`
}

// Write sends p as the response. It removes header fields that describe another body and
// keeps all others.
func Write(w http.ResponseWriter, p Problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // impossible for strings and an int
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
