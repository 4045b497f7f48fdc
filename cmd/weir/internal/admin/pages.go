package admin

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// sameOriginOnly refuses requests of pages of other origins, as the browser reports them.
func sameOriginOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sameOrigin(r) {
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "requests of pages of other origins are refused"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin reports whether a page of this origin sent r, a user who typed its address,
// or a client other than a browser.
func sameOrigin(r *http.Request) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}
