package problem

import (
	"net/http"
	"strconv"
	"time"
)

// SetRetryAfter sets Retry-After to d in whole seconds, rounded up, and at least one.
func SetRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10))
}
