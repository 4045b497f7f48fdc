package problem

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// bodyTimeout bounds the time in which a request body has to arrive.
const bodyTimeout = 10 * time.Second

// ReadBody reads a request body of at most most bytes. It returns an *http.MaxBytesError
// if the body is larger.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // not supported: the server has a timeout
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		_ = conn.SetReadDeadline(time.Time{})
	}
	return data, err
}

// WriteBodyError sends the problem document for an error of ReadBody.
func WriteBodyError(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	if !errors.As(err, &large) {
		Write(w, Problem{Status: http.StatusRequestTimeout, Detail: "request body not received"})
		return
	}
	Write(w, Problem{Status: http.StatusRequestEntityTooLarge, Detail: "request body too large", Field: "body",
		Value: fmt.Sprintf("more than %d bytes", large.Limit), Expected: fmt.Sprintf("at most %d bytes", large.Limit)})
}
