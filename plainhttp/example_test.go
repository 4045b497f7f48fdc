package plainhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/floodweir/weir/plainhttp"
)

func ExampleListen() {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := plainhttp.Listen(server, l, plainhttp.Config{})
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()

	r, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	fmt.Println(r.Status, string(body))

	err = errors.Join(server.Shutdown(context.Background()), listener.Shutdown(context.Background()))
	fmt.Println(err, <-ended)
	// Output:
	// 200 OK hello
	// <nil> http: Server closed
}
