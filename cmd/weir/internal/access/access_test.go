package access_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

const token = "correct-horse-battery-staple"

// TestWrap checks which requests pass with and without credentials.
func TestWrap(t *testing.T) {
	configs := map[string]access.Config{
		"none":        {},
		"token":       {Token: token},
		"certificate": {Certificates: true}, // the listener has checked it
	}
	for _, test := range []struct {
		path, host, authorization string
		status                    map[string]int
	}{
		{"/v1/take", "127.0.0.1:8080", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/v1/take", "[::1]:8080", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/v1/take", "Localhost:8080", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/v1/take", "Weir.Internal.:8080", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/v1/take", "evil.example", "", map[string]int{"none": 403, "token": 401, "certificate": 200}},
		{"/v1/take", "127.0.0.1.evil.example", "", map[string]int{"none": 403, "token": 401, "certificate": 200}},
		{"/v1/take", "", "", map[string]int{"none": 403, "token": 401, "certificate": 200}},
		{"/v1/take", "evil.example", "Bearer " + token, map[string]int{"none": 403, "token": 200, "certificate": 200}},
		{"/v1/take", "127.0.0.1", "Bearer x" + token, map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/readyz", "127.0.0.1", "", map[string]int{"none": 200, "token": 299, "certificate": 200}}, // 299: anonymous
		{"/readyz", "127.0.0.1", "Bearer " + token, map[string]int{"none": 200, "token": 200, "certificate": 200}},
		{"/readyz", "127.0.0.1", "Bearer x" + token, map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/readyz", "evil.example", "", map[string]int{"none": 403, "token": 299, "certificate": 200}},
		{"/readyz/", "127.0.0.1", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
		{"/v1/auth", "shop.example", "Bearer of the client", map[string]int{"none": 200, "token": 200, "certificate": 200}},
		{"/v1/auth/../take", "127.0.0.1", "", map[string]int{"none": 200, "token": 401, "certificate": 200}},
	} {
		for name, c := range configs {
			c.Interface, c.Hosts, c.Public, c.Proxy = "http", []string{"weir.internal"}, func(r *http.Request) bool { return r.URL.Path == "/readyz" }, "/v1/auth"
			a, err := access.New(c)
			if err != nil {
				t.Fatal(err)
			}
			handler := a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if access.Anonymous(r.Context()) {
					w.WriteHeader(299)
				}
				io.WriteString(w, "ok")
			}))
			r := httptest.NewRequest(http.MethodPost, "http://x/", nil)
			r.URL.Path, r.Host = test.path, test.host
			if test.authorization != "" {
				r.Header.Set("Authorization", test.authorization)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.status[name] {
				t.Errorf("%s: %s with Host %q and %q = %d, want %d", name, test.path, test.host, test.authorization, w.Code, test.status[name])
			}
		}
	}
}
