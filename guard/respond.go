package guard

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

// Respond writes the response of an HTTP handler whose guard did not admit the request; err is the
// error of Enter. For a *Denied the body is exactly its Message. The status is 429 with
// Retry-After if a limit denied the request, 503 if a Protection refused it or the store made no
// decision, and 500 for other errors.
func Respond(w http.ResponseWriter, err error) {
	status, body, retry := http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError), time.Duration(0)
	var d *Denied
	var u *StoreError
	switch {
	case errors.As(err, &u): // its Err may be any error
		status, body, retry = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), enforce.RetryAfter(err)
	case errors.As(err, &d) && d.Cause != nil:
		status, body = http.StatusServiceUnavailable, d.Message
	case errors.As(err, &d):
		status, body, retry = http.StatusTooManyRequests, d.Message, d.Decision.RetryAfter
	}
	h := w.Header()
	h.Del("Content-Length") // of a response that the handler has prepared
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if retry > 0 && retry != weir.Never {
		seconds := retry / time.Second
		if retry%time.Second > 0 {
			seconds++ // a retry before is denied
		}
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // an error means that the client disconnected
}
