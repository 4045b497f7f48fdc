// Command woven is counter without a generated file: it mounts testLimit itself.
//
//	go run ./cmd/weir go run ./examples/counter/woven
//
// weir go runs the go command so that testLimit is limited for all that call it. With the
// go command alone the directive is a comment, and all fifteen calls get through.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

//weir:limit limit=10 period=10 fallback=busy
func testLimit(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "ok")
}

// busy answers when testLimit may not be called. Nothing but the directive names it.
//
//lint:ignore U1000 woven code calls it
func busy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	json.NewEncoder(w).Encode(result{888, "rate limit error"})
}

type result struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func main() {
	http.HandleFunc("GET /test/limit", testLimit)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, nil)
	for range 15 {
		if err := show("http://" + l.Addr().String() + "/test/limit"); err != nil {
			log.Fatal(err)
		}
	}
}

// show prints what a server answers.
func show(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Print(string(body))
	return err
}
