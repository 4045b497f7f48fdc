package comingfrom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir/httplimit"
)

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func Example_tollbooth() {
	store := still()
	byIPAndPath := func(r *http.Request) string { return httplimit.ByIP(r) + " " + r.URL.Path }
	handler := httplimit.Limit(store, "10/s", byIPAndPath)(http.HandlerFunc(hello))
	statuses := map[int]int{}
	for range 11 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		statuses[w.Code]++
	}
	fmt.Println(statuses)
	// Output: map[200:10 429:1]
}

func Example_ulule() {
	store := still()
	handler := httplimit.Limit(store, "10/m fixed_window", httplimit.ByIP)(http.HandlerFunc(hello))
	statuses := map[int]int{}
	for range 11 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		statuses[w.Code]++
	}
	fmt.Println(statuses)
	// Output: map[200:10 429:1]
}
