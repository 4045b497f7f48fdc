package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/apiclient"
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

func (c Client) api() apiclient.Client {
	return apiclient.Client{URL: c.URL, Token: c.Token, Server: "admin interface of Weir"}
}

// get requests a path and decodes its JSON into v, or returns it as text if v is nil.
func (c Client) get(ctx context.Context, v any, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := c.api().Read(ctx, path, nil, nil, maxResponse)
	if err != nil || v == nil {
		return data, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w", c.URL.Redacted(), err)
	}
	return data, nil
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
	res, err := c.api().Do(ctx, []string{"v1", "events"}, nil, nil)
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
