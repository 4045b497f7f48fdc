// Command counter has a handler that may be called ten times in ten seconds, and calls it
// fifteen times.
//
//	go run ./examples/counter
//
// A //weir:limit directive says so. What it stands for is in main_weir.go, which weir
// generate wrote: the program mounts limitedTestLimit in the place of testLimit. In woven
// is the same without a generated file, where callers know nothing of a limit.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

//go:generate go run github.com/floodweir/weir/cmd/weir generate

//weir:limit limit=10 period=10 fallback=busy
func testLimit(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "ok")
}

// busy answers when testLimit may not be called.
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
	http.HandleFunc("GET /test/limit", limitedTestLimit)
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
