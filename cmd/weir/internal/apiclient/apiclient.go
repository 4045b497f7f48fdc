// Package apiclient calls the HTTP interfaces of a running weir serve, for the commands of weir.
//
//	c := apiclient.Client{URL: admin, Token: token, Server: "admin interface of Weir"}
//	data, err := c.Read(ctx, []string{"v1", "overview"}, nil, nil, 1<<20)
package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

// maxProblem bounds the size of a problem document, in bytes.
const maxProblem = 1 << 20

// A Client calls one interface. URL and Server are required.
type Client struct {
	URL     *url.URL
	Token   string // "": none
	Server  string // the expected server, for errors
	Command string // begins errors; none if empty
	Hint    string // ends the error if there is no server; none if empty
}

// Do sends body to a path in JSON, or a GET request if body is nil. A response with a status
// other than 200 is an error with the text of its problem document. Otherwise the caller closes
// the body of the response.
func (c Client) Do(ctx context.Context, path []string, query url.Values, body any) (*http.Response, error) {
	to, method, data := c.URL.JoinPath(path...), http.MethodGet, []byte(nil)
	to.RawQuery = query.Encode()
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", access.UserAgent)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // it repeats the method and the URL
			err = u.Err
		}
		return nil, c.connectError(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return nil, c.error("%w", err)
	}
	if strings.Contains(string(text), "HTTP request to an HTTPS server") {
		return nil, c.error("the port requires TLS: use https:// in the URL")
	}
	var p struct{ Title, Detail string }
	if json.Unmarshal(text, &p) != nil || p.Title == "" {
		return nil, c.error("got status %s, want the response of the %s", res.Status, c.Server)
	}
	return nil, c.error("%s: %s", plain(p.Title), plain(strings.TrimPrefix(p.Detail, c.prefix())))
}

// connectError returns the error of a request without a response.
func (c Client) connectError(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return c.error("certificate: %w: if its authority is private, set SSL_CERT_FILE to the authority's file", untrusted.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return c.error("the port is without TLS: use http:// in the URL")
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "malformed HTTP"):
		return c.error("the response is not HTTP (%w), want that of the %s", err, c.Server)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no response in time (%w)", err)
	}
	text := fmt.Sprintf(": is `weir serve` running there? %s", c.Hint)
	return fmt.Errorf("%scannot connect to %s: %w%s", c.prefix(), c.URL.Redacted(), err, strings.TrimRight(text, " "))
}

// Read sends a request as Do does, and returns the body of the response. It reads at most limit
// bytes.
func (c Client) Read(ctx context.Context, path []string, query url.Values, body any, limit int64) ([]byte, error) {
	res, err := c.Do(ctx, path, query, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return nil, c.error("%w", err)
	}
	return data, nil
}

// error returns an error that names the command and the server.
func (c Client) error(format string, args ...any) error {
	return fmt.Errorf("%s%s: %w", c.prefix(), c.URL.Redacted(), fmt.Errorf(format, args...))
}

func (c Client) prefix() string {
	if c.Command == "" {
		return ""
	}
	return c.Command + ": "
}

// plain returns s with U+FFFD in place of characters that change a terminal. Lines stay.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
