package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
)

// ExampleLimit limits each client address to one request per minute.
func ExampleLimit() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	mux := http.NewServeMux()
	handler := httplimit.Limit(store, "1/m", httplimit.ByIP)(mux)

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 404 ""
	// 429 "60"
}

type session struct{ user string }

type sessionKey struct{}

// ExampleLimit_user limits each signed-in user.
func ExampleLimit_user() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	limit := httplimit.Limit(store, "100/h", func(r *http.Request) string {
		return r.Context().Value(sessionKey{}).(session).user
	})
	handler := signIn(limit(http.NotFoundHandler()))

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"), "remaining")
	// Output:
	// 99 remaining
}

// signIn stands for an authentication middleware.
func signIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, session{"alice"})))
	})
}

// ExampleLimitFunc limits each tenant by its plan.
func ExampleLimitFunc() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	plans := map[string]weir.Limit{"large": weir.MustLimit("1000/h")}
	limit := httplimit.LimitFunc(store, func(_ context.Context, tenant string) (weir.Limit, error) {
		if l, ok := plans[tenant]; ok {
			return l, nil
		}
		return weir.MustLimit("10/h"), nil
	}, func(r *http.Request) string { return r.Header.Get("X-Tenant") })
	handler := limit(http.NotFoundHandler())

	for _, tenant := range []string{"large", "small"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", tenant)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(tenant, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// large 999
	// small 9
}
