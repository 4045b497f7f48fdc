package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

const (
	maxResponse = 4 << 20 // bytes
	maxLine     = 1 << 20 // bytes of an event

	// requestTimeout bounds a request, and silence of the stream bounds the time without an
	// event, of which there is one every second.
	requestTimeout = 5 * time.Second
	silence        = 10 * time.Second
)

// A Client calls the admin interface of a program.
type Client struct {
	URL   *url.URL
	Token string // "": none
}

// get requests a path and decodes its JSON into v, or returns it as text if v is nil.
func (c Client) get(ctx context.Context, v any, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := c.do(ctx, c.URL.JoinPath(path...))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err == nil && v != nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.URL.Redacted(), err)
	}
	return data, nil
}

// do sends a GET request. A status other than 200 is an error with the text of its problem
// document.
func (c Client) do(ctx context.Context, to *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", access.UserAgent)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("cannot connect to %s: %w: is `weir serve` running there?", c.URL.Redacted(), err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxLine))
	var p struct{ Title, Detail string }
	if json.Unmarshal(data, &p) != nil || p.Title == "" {
		return nil, fmt.Errorf("%s: got status %s, want the admin interface of Weir", c.URL.Redacted(), res.Status)
	}
	return nil, fmt.Errorf("%s: %s: %s", c.URL.Redacted(), plain(p.Title), plain(p.Detail))
}

// overview requests /v1/overview.
func (c Client) overview(ctx context.Context) (*overview, error) {
	o := &overview{}
	_, err := c.get(ctx, o, "v1", "overview")
	return o, err
}

// keys requests the keys of a policy.
func (c Client) keys(ctx context.Context, policy string) (*keyList, error) {
	k := &keyList{}
	_, err := c.get(ctx, k, "v1", "policies", policy, "keys")
	return k, err
}

// follow calls use with the name and the data of every event until the stream ends, and returns
// why.
func (c Client) follow(ctx context.Context, use func(event string, data []byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := c.do(ctx, c.URL.JoinPath("v1", "events"))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if t := res.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/event-stream") {
		return fmt.Errorf("%s: got content of type %q, want text/event-stream", c.URL.Redacted(), plain(t))
	}
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	event := ""
	for lines.Scan() {
		quiet.Reset(silence)
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			use(event, value)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}
