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
	"os"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

// A request is a request to a running program.
type request struct {
	command     string // for errors: "take"
	to          *url.URL
	path        []string
	query       url.Values
	token       string // "": none
	body        any    // nil: GET
	maxBytes    int64  // maximum size of the response
	unreachable string // what to do without a server
	notWeir     string // the expected server
}

// send sends the request and returns the body of a response with status 200. Any other
// status is an error with the text of its problem document.
func (q request) send(ctx context.Context) ([]byte, error) {
	to, method, body := q.to.JoinPath(q.path...), http.MethodGet, []byte(nil)
	to.RawQuery = q.query.Encode()
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", access.UserAgent)
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

// readToken returns the token of an interface: from the file of --token-file, else of the
// variable with _FILE behind its name, else from the variable; "" for none.
func readToken(command, file, variable string, getenv func(string) string) (string, error) {
	where := "--token-file"
	if file == "" {
		where, file = variable+"_FILE", getenv(variable+"_FILE")
	}
	token := getenv(variable)
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", command, where, err)
		}
		token = strings.TrimSpace(string(data))
	case token == "":
		return "", nil
	case strings.ContainsFunc(token, notInToken):
		return "", fmt.Errorf("%s: %s: want the token, in ASCII without spaces", command, variable)
	}
	if token == "" || strings.ContainsFunc(token, notInToken) {
		return "", fmt.Errorf("%s: %s %q: want a file with one line that is the token", command, where, file)
	}
	return token, nil
}

func notInToken(r rune) bool { return r <= ' ' || r >= 0x7f }
