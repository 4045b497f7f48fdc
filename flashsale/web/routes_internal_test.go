package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/wire"
)

// FuzzRoutes: a path that a route handles has one spelling.
func FuzzRoutes(f *testing.F) {
	for _, s := range []string{"/", "/api/sales/a1/ticket", "/api/orders/abc/pay", "//api", "/api/..%2f", "/api/sales/a1;x", "/%61pi/time"} {
		f.Add(s)
	}
	var routed route
	mux := newMux(false, func(rt route) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { routed = rt })
	})
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !wire.IsCanonicalPath(u) {
			return
		}
		r := &http.Request{Method: http.MethodGet, URL: u}
		_, pattern := mux.Handler(r)
		if pattern == "/" || pattern == "/api" || pattern == "/api/" {
			return
		}
		mux.ServeHTTP(httptest.NewRecorder(), r)
		id := r.PathValue("id")
		if routed.valid != nil && !routed.valid(id) {
			return
		}
		if u.EscapedPath() != u.Path || strings.ContainsAny(u.Path, ";%\\") || strings.Contains(u.Path, "..") || !strings.HasPrefix(u.Path, "/api/") || id != "" && !isReceipt(id) {
			t.Errorf("%q is handled by %q with ID %q", path, pattern, id)
		}
	})
}
