package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// maxCookies bounds how many cookies are read. Browsers keep about 200 of a site. A proxy in
// front that limits by session may not read any if there are thousands.
const maxCookies = 400

// Cookie returns the value of a cookie. It returns an empty string if there is none, if there
// are several with different values, or if there are more than maxCookies. In these cases a
// proxy in front could read another value.
func Cookie(h http.Header, name string) string {
	found, seen, n := "", false, 0
	for _, line := range h["Cookie"] {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			if n++; n > maxCookies {
				return ""
			}
			k, v, ok := strings.Cut(strings.TrimLeft(pair, " "), "=")
			if !ok || k != name {
				continue
			}
			if seen && found != v {
				return ""
			}
			found, seen = v, true
		}
	}
	return found
}

// SameOrigin reports whether a page of this site made the request. Pages of other sites cannot
// make a browser send these header fields.
func SameOrigin(h http.Header) bool {
	return h.Get("Flashsale-Request") == "1" || h.Get("Sec-Fetch-Site") == "same-origin"
}

// CrossOrigin reports whether the browser marks the request as made by a page of another site.
// A session from such a request would replace the browser's own.
func CrossOrigin(r *http.Request) bool {
	if SameOrigin(r.Header) {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}
