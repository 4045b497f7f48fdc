package weirconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// newGreeter is a handler as generated code has it.
func newGreeter(opts ...connect.HandlerOption) (path string, h http.Handler) {
	const greetProcedure = "/hello.Greeter/Greet"
	return greetProcedure, connect.NewUnaryHandler(greetProcedure, func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(wrapperspb.String("hello, " + r.Msg.Value)), nil
	}, opts...)
}

func greet(url string, opts ...connect.ClientOption) (string, error) {
	c := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, url+"/hello.Greeter/Greet", opts...)
	resp, err := c.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("you")))
	if err != nil {
		return "", err
	}
	return resp.Msg.Value, nil
}

// ExampleNew shows a server whose clients may call a service twice an hour each.
func ExampleNew() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name:   "greetings",
		Match:  policy.Match{Paths: []string{"/hello.Greeter/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("2/h")},
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
	limits, err := weirconnect.New(store, set, weirconnect.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(newGreeter(connect.WithInterceptors(limits)))
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 3 {
		text, err := greet(server.URL)
		after, denied := weirconnect.RetryAfter(err)
		fmt.Println(text, denied, after.Round(time.Minute))
	}
	// Output:
	// hello, you false 0s
	// hello, you false 0s
	//  true 30m0s
}

// ExampleNewClient shows a client that sends two calls a day, and waits for up to five seconds
// where a server asks it to. Others that share the store share the two.
func ExampleNewClient() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	budget, err := weir.New(store, weir.MustLimit("2/24h"), weir.Config{Prefix: "greeter"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pace, err := weirconnect.NewClient(weirconnect.ClientConfig{Limiter: budget, MaxWait: 5 * time.Second, Retries: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(newGreeter())
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 3 {
		_, err := greet(server.URL, connect.WithInterceptors(pace))
		fmt.Println(err == nil || connect.CodeOf(err) == connect.CodeResourceExhausted, err == nil)
	}
	// Output:
	// true true
	// true true
	// true false
}

func ExampleRetryAfter() {
	err := connect.NewError(connect.CodeResourceExhausted, errors.New("message too large"))
	_, ok := weirconnect.RetryAfter(err)
	fmt.Println(ok)
	// Output: false
}

func ExampleHTTPStatus() {
	fmt.Println(weirconnect.HTTPStatus(connect.CodeInvalidArgument), weirconnect.HTTPStatus(connect.CodeResourceExhausted))
	// Output: 400 429
}

// ExampleLimit limits each client address.
func ExampleLimit() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	mux := http.NewServeMux()
	mux.Handle(newGreeter(connect.WithInterceptors(weirconnect.Limit(store, "1/h", weirconnect.ByIP))))
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 2 {
		text, err := greet(server.URL)
		fmt.Println(text, connect.CodeOf(err) == connect.CodeResourceExhausted)
	}
	// Output:
	// hello, you false
	//  true
}
