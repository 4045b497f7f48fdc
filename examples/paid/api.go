package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
)

// A paidAPI answers, and charges for it.
type paidAPI struct {
	url    string
	calls  atomic.Int64
	server http.Server
}

func serve() (*paidAPI, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &paidAPI{url: "http://" + l.Addr().String() + "/quote"}
	a.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "quote %d\n", a.calls.Add(1))
	})
	go a.server.Serve(l)
	return a, nil
}

func (a *paidAPI) stop() { a.server.Close() }
