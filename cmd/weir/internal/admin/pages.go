package admin

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// ownPages refuses what a page of another origin asks for, as the browser says that
// shows it. Unless a token protects the door it also refuses to be called by a name: a
// page may have one that was pointed at this address after the page was read (DNS
// rebinding), and then the browser takes it for a page of this door. An address and
// localhost cannot be pointed elsewhere.
func sameOriginOnly(byAddress bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case byAddress && !problem.IsAddress(r.Host):
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "Host", Value: problem.Shorten(r.Host),
				Expected: "an address or localhost", Detail: "without a token this door is called by address or as localhost"})
		case !sameOrigin(r):
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "a page of another origin may not ask"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin reports whether r comes from this door's own pages, from a person who typed
// its address, or from no browser.
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
