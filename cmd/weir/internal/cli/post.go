package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A request is a request to a running program.
type request struct {
	command     string // for errors: "take"
	to          *url.URL
	path        []string
	token       string // "": none
	body        any
	maxBytes    int64  // maximum size of the response
	unreachable string // what to do without a server
	notWeir     string // the expected server
}

// post sends the request and returns the body of a response with status 200. Any other
// status is an error with the text of its problem document.
func (q request) post(ctx context.Context) ([]byte, error) {
	body, err := json.Marshal(q.body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.to.JoinPath(q.path...).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot connect to %s: %w: is `weir serve` running there? %s", q.command, q.to.Redacted(), cause(err), q.unreachable)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, q.maxBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", q.command, q.to.Redacted(), err)
	}
	if res.StatusCode != http.StatusOK {
		var p struct{ Title, Detail string }
		if json.Unmarshal(data, &p) != nil || p.Title == "" {
			return nil, fmt.Errorf("%s: %s: got status %s, want the response of the %s", q.command, q.to.Redacted(), res.Status, q.notWeir)
		}
		return nil, fmt.Errorf("%s: %s: %s: %s", q.command, q.to.Redacted(), p.Title, strings.TrimPrefix(p.Detail, q.command+": "))
	}
	return data, nil
}

// cause returns err without the method and URL that url.Error repeats.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
