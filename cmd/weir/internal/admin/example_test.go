package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

func Example() {
	policies := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.WriteJSON(w, []string{"api-per-client"})
	})
	a, err := admin.New(admin.Config{
		Routes: []admin.Route{{Pattern: "GET /v1/policies", Summary: "the policies in force", Role: access.Read, Handler: policies}},
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(a)
	defer server.Close()
	res, err := http.Get(server.URL + "/v1/policies")
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %s", res.Status, body)
	// Output:
	// 200 OK ["api-per-client"]
}
