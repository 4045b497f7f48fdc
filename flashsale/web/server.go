package web

import (
	"net/http"
	"time"
)

// Server is an HTTP server for the shop or the office, with bounds on what a client can make
// it wait for: 5 s for the head of a request, 10 s for all of it, 15 s for the answer,
// 60 s between requests, and 16 KiB of head.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}
