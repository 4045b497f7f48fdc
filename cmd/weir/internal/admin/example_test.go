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
		Address:  "127.0.0.1:9090",
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

func ExampleCheck() {
	fmt.Println(admin.Check("127.0.0.1:9090", ""))
	fmt.Println(admin.Check("127.0.0.1:9090", "too-short"))
	// Output:
	// <nil>
	// admin: token: invalid: want at least 16 bytes, got 9: create one with openssl rand -hex 32
}
