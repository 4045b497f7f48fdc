package admin

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// sameOriginOnly refuses requests of pages of other origins, as the browser reports them.
// It also refuses requests with a cookie and without the browser's report: a browser that
// sends neither field cannot prove that a page of this origin sent the cookie.
func sameOriginOnly(next http.Handler) http.Handler {
	writes := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unreported := r.Header["Sec-Fetch-Site"] == nil && r.Header["Origin"] == nil
		switch {
		case writes.Check(r) != nil || !sameOrigin(r):
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "requests of pages of other origins are refused"})
		case unreported && r.Header["Cookie"] != nil:
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "Sec-Fetch-Site", Value: "nothing",
				Expected: "Sec-Fetch-Site or Origin in a request with a cookie", Detail: "cookies are for browsers that report the origin of a request; other clients send Authorization: Bearer TOKEN"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin reports whether a page of this origin sent r, a user who typed its address,
// or a client other than a browser. Unlike http.CrossOriginProtection it also refuses GET:
// a profile takes time. A link on another page may open a page, but cannot embed it.
func sameOrigin(r *http.Request) bool {
	link := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/debug/")
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" && !link {
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
