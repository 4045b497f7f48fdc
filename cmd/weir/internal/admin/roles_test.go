package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
)

// TestRoles checks what a reader and an operator may do, with a token and in a session.
func TestRoles(t *testing.T) {
	reader, readLine, err := access.NewToken(access.Read, "ana")
	if err != nil {
		t.Fatal(err)
	}
	operator, operateLine, err := access.NewToken(access.Operate, "mei")
	if err != nil {
		t.Fatal(err)
	}
	acted := 0
	d := open(t, admin.Config{Token: readLine + "\n" + operateLine, Routes: []admin.Route{
		{Pattern: "POST /v1/act", Role: access.Operate, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { acted++ })},
	}})
	signIn := func(token string) string {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9090/v1/session", strings.NewReader(`{"token": "`+token+`"}`))
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return strings.SplitN(w.Header().Get("Set-Cookie"), ";", 2)[0]
	}
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:9090", "RemoteAddr", "127.0.0.1:1"}
	asReader, asOperator := append(own, "Cookie", signIn(reader)), append(own, "Cookie", signIn(operator))
	for _, test := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"reader sees", "GET", "/metrics", []string{"Authorization", "Bearer " + reader}, 200},
		{"reader does not act", "POST", "/v1/act", []string{"Authorization", "Bearer " + reader}, 403},
		{"reader has no profiles", "GET", "/debug/pprof/heap", []string{"Authorization", "Bearer " + reader}, 403},
		{"operator acts", "POST", "/v1/act", []string{"Authorization", "Bearer " + operator}, 200},
		{"reader's session sees", "GET", "/metrics", asReader, 200},
		{"reader's session does not act", "POST", "/v1/act", asReader, 403},
		{"operator's session acts", "POST", "/v1/act", asOperator, 200},
		{"GET does not act", "GET", "/v1/act", asOperator, 405},
		{"no credentials", "POST", "/v1/act", own, 401},
		{"cross-site POST", "POST", "/v1/act", append([]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, asOperator[4:]...), 403},
		{"POST of another port", "POST", "/v1/act", append([]string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:8000"}, asOperator[4:]...), 403},
		{"POST of another origin, old browser", "POST", "/v1/act", append([]string{"Origin", "https://evil.example"}, asOperator[4:]...), 403},
		{"POST with a cookie, no origin", "POST", "/v1/act", asOperator[4:], 403},
		{"GET with a cookie, no origin", "GET", "/metrics", asReader[4:], 403},
		{"forged host", "POST", "/v1/act", append([]string{"Host", "evil.example"}, asOperator...), 403},
		{"framed", "GET", "/", append([]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, asReader[4:]...), 403},
	} {
		before := acted
		w := ask(d, test.method, test.path, test.headers...)
		if want := test.status == 200 && test.path == "/v1/act"; w.Code != test.status || (acted > before) != want {
			t.Errorf("%s: %s %s = %d %s, acted %v, want %d", test.name, test.method, test.path, w.Code, w.Body, acted > before, test.status)
		}
		if w.Code == 403 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s", test.name, w.Header())
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy: %s", test.name, csp)
		}
	}
}
