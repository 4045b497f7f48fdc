// Package demo is the upstream of the demo: a few paths, and a page on which to try the
// limits.
package demo

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
)

//go:embed page.html
var page []byte

// Upstream serves every path: / with the page for a browser, everything else with a
// description of the request.
func Upstream() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", first)
	mux.HandleFunc("/", echo)
	return mux
}

func first(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		echo(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Write(page)
}

func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(struct {
		Says   string `json:"says"`
		Method string `json:"method"`
		Path   string `json:"path"`
		Client string `json:"client"`
	}{"admitted: this came from the upstream", r.Method, r.URL.Path, r.Header.Get("X-Forwarded-For")})
}
