package demo_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/demo"
)

func TestUpstream(t *testing.T) {
	up := demo.Upstream()
	for _, test := range []struct{ method, path, accept, want string }{
		{"GET", "/", "text/html,*/*", "<!doctype html>"},
		{"GET", "/", "*/*", `"path":"/"`},
		{"POST", "/", "text/html", `"method":"POST"`},
		{"GET", "/hello", "text/html", `"path":"/hello"`},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("Accept", test.accept)
		w := httptest.NewRecorder()
		up.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s for %s = %d %.60q, want %s", test.method, test.path, test.accept, w.Code, w.Body, test.want)
		}
	}
}

// TestPageStandsAlone checks that the page needs nothing but itself.
func TestPageStandsAlone(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	demo.Upstream().ServeHTTP(w, r)
	if from := regexp.MustCompile(`(?i)(src|href)\s*=\s*"[^d"]|url\(|@import|https?://`).FindString(w.Body.String()); from != "" {
		t.Errorf("the page refers to something else: %s", from)
	}
	if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("the page may load what it likes")
	}
}
