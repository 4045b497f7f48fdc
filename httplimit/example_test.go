package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func Example() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:   "api",
		Match:  policy.Match{Paths: []string{"/api/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("1/m")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := policy.NewSet(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := httplimit.New(store, set, httplimit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/api/users", nil))
		fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "api";q=1;w=60 ""
	// 429 "api";q=1;w=60 "60"
}

func ExampleParseFields() {
	f, err := httplimit.ParseFields("draft-06")
	fmt.Println(f, err)
	fmt.Println(f.Names())
	// Output:
	// draft-06 <nil>
	// [Ratelimit-Limit Ratelimit-Remaining Ratelimit-Reset Ratelimit-Policy]
}

// ExampleMiddleware_Wrap limits wrong passwords to three per hour. Correct ones are not
// limited.
func ExampleMiddleware_Wrap() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:   "guessing",
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("3/h")},
		Count:  policy.CountFailures,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := policy.NewSet(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := httplimit.New(store, set, httplimit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	signIn := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"secret", "a", "secret", "b", "c", "d", "secret"} {
		w := httptest.NewRecorder()
		signIn.ServeHTTP(w, httptest.NewRequest("POST", "/?password="+password, nil))
		fmt.Println(password, w.Code)
	}
	// Output:
	// secret 200
	// a 401
	// secret 200
	// b 401
	// c 401
	// d 429
	// secret 429
}
