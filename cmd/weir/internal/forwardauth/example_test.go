package forwardauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/forwardauth"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func Example() {
	p, err := policy.New(policy.Config{
		Name: "login", Match: policy.Match{Paths: []string{"/login"}},
		Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1/h")},
	})
	if err != nil {
		panic(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		panic(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	limit, err := httplimit.New(store, set, httplimit.Config{NoResponse: true})
	if err != nil {
		panic(err)
	}
	auth, err := forwardauth.New(forwardauth.Config{Limit: limit.Wrap})
	if err != nil {
		panic(err)
	}
	for range 2 { // what nginx asks
		r := httptest.NewRequest(http.MethodGet, "/v1/auth?denied=403", nil)
		r.RemoteAddr = "127.0.0.1:50000"
		r.Header.Set("X-Forwarded-Method", "POST")
		r.Header.Set("X-Forwarded-Uri", "/login")
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		auth.ServeHTTP(w, r)
		fmt.Printf("%d %q %q\n", w.Code, w.Header().Get("Weir-Status"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "" ""
	// 403 "429" "3600"
}
