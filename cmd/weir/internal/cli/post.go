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

// A question is what a command asks a running program.
type request struct {
	command     string // who asks, for errors: "take"
	to          *url.URL
	path        []string
	token       string // "" for none
	body        any
	maxBytes    int64  // bytes of the answer that are read
	unreachable string // what to do if nobody is there
	notWeir     string // what somebody else who answers is not
}

// post asks, and returns the answer if its status is 200. Any other is an error with
// what the problem document says.
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
		return nil, fmt.Errorf("%s: cannot ask %s: %w: is `weir serve` running there? %s", q.command, q.to.Redacted(), cause(err), q.unreachable)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, q.maxBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", q.command, q.to.Redacted(), err)
	}
	if res.StatusCode != http.StatusOK {
		var p struct{ Title, Detail string }
		if json.Unmarshal(data, &p) != nil || p.Title == "" {
			return nil, fmt.Errorf("%s: %s answers %s: this is no %s", q.command, q.to.Redacted(), res.Status, q.notWeir)
		}
		return nil, fmt.Errorf("%s: %s: %s: %s", q.command, q.to.Redacted(), p.Title, strings.TrimPrefix(p.Detail, q.command+": "))
	}
	return data, nil
}

// cause is err without the method and URL that url.Error repeats.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
