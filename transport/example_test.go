package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/transport"
)

// Example sends at most three calls in any 24 hours.
func Example() {
	paid := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the API charges for", r.URL.Path)
	}))
	defer paid.Close()

	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	t, err := transport.New(transport.Config{
		Store:  store,
		Limits: []weir.Limit{weir.MustLimit("100/s"), weir.MustLimit("3/24h fixed_window")},
		Key:    func(*http.Request) string { return "quotes" },
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: t}
	for i := range 5 {
		resp, err := client.Get(fmt.Sprintf("%s/quote/%d", paid.URL, i))
		var denied *transport.Denied
		if errors.As(err, &denied) {
			fmt.Println("not sent: the next in", denied.Decision.RetryAfter.Round(time.Hour))
			continue
		}
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
	}
	// Output:
	// the API charges for /quote/0
	// the API charges for /quote/1
	// the API charges for /quote/2
	// not sent: the next in 24h0m0s
	// not sent: the next in 24h0m0s
}

// ExampleConfig_retries retries after the delay that a server asks for.
func ExampleConfig_retries() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	t, err := transport.New(transport.Config{Retries: 1, MaxWait: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: t}
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", calls, "calls")
	// Output: 200 after 2 calls
}

// ExampleRetryAfter parses the delay that a response asks for.
func ExampleRetryAfter() {
	for _, h := range []http.Header{
		{"Ratelimit": {`"burst";r=0;t=2, "day";r=0;t=3600`}},
		{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30"}},
		{"X-Ratelimit-Remaining": {"7"}, "X-Ratelimit-Reset": {"30"}},
		{},
	} {
		fmt.Println(transport.RetryAfter(&http.Response{StatusCode: 200, Header: h}))
	}
	// Output:
	// 1h0m0s true
	// 30s true
	// 0s true
	// 0s false
}

// ExampleHost shows the default key of a request.
func ExampleHost() {
	r, err := http.NewRequest("GET", "https://API.Example.com:443/v1/quote", nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(transport.Host(r))
	// Output: api.example.com
}
