package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/floodweir/weir/cmd/weir/internal/admin"
)

func Example() {
	door, err := admin.New(admin.Config{
		Policies: func() any { return []string{"api-per-client"} },
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(door)
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
	// 200 OK [
	//   "api-per-client"
	// ]
}
