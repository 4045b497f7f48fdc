package web

import (
	"net/http"
	"time"
)

// Server returns an HTTP server for the shop or the office. Its timeouts are 5 s for the
// request header, 10 s for the whole request, 15 s for the response and 60 s between requests.
// A header has at most 16 KiB.
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
