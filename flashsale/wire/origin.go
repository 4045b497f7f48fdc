package wire

import (
	"net/http"
	"net/url"
	"strings"
)

// maxCookies is how many cookies are looked at. Browsers keep some 200 of a site; what stands
// in front and counts by the session may read none where there are thousands.
const maxCookies = 400

// Cookie is the value of the cookie of this name. Without one, of several that are not the
// same, and among more than maxCookies, it is empty: which of them is the browser's own, or
// is seen by what stands in front, cannot be told.
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

// OwnPage reports whether a request that changes something was asked for on a page of this
// site: no other site can make a browser send it so.
func SameOrigin(h http.Header) bool {
	return h.Get("Flashsale-Request") == "1" || h.Get("Sec-Fetch-Site") == "same-origin"
}

// Foreign reports whether a browser says that a page of another site asks. A session from
// there would take the place of the browser's own.
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
