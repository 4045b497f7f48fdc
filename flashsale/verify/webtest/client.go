package webtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	startDelay = 1500 * time.Millisecond // of a sale that starts soon
	timeout    = 20 * time.Second        // of every wait
)

type suite struct {
	Target
	clients atomic.Int64
}

// A browser is a client with its own cookies and address.
type browser struct {
	suite    *suite
	i        int
	cookie   string
	user     string
	sameSite bool // whether it sends the field that pages of the shop send
}

func (s *suite) browser() *browser {
	return &browser{suite: s, i: int(s.clients.Add(1)), sameSite: true}
}

// guest returns a browser with a session.
func (s *suite) guest(t *testing.T) *browser {
	t.Helper()
	b := s.browser()
	a := b.do(t, "POST", "/api/session", "", nil)
	a.want(t, http.StatusCreated, "")
	for _, c := range a.cookies {
		if c.Name == "fs_session" {
			b.cookie = "fs_session=" + c.Value
		}
	}
	b.user, _ = a.json["user"].(string)
	if b.cookie == "" || len(b.user) < 16 {
		t.Fatalf("session: cookie %q and user %q", b.cookie, b.user)
	}
	return b
}

// A response is the response to a request.
type response struct {
	request string
	status  int
	header  http.Header
	cookies []*http.Cookie
	body    string
	json    map[string]any
}

// do sends a request, and repeats it while a limit refuses it with Retry-After.
func (b *browser) do(t *testing.T, method, path, body string, fields map[string]string) response {
	t.Helper()
	for end := time.Now().Add(timeout); ; {
		a := b.once(t, method, path, body, fields)
		layer := a.header.Get("Flashsale-Layer")
		if a.status != http.StatusTooManyRequests || layer != "L1" && layer != "L2" && layer != "L4" || time.Now().After(end) {
			return a
		}
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			t.Fatalf("%s: 429 with Retry-After %q", a.request, a.header.Get("Retry-After"))
		}
		<-time.After(time.Duration(seconds) * time.Second)
	}
}

// once sends one request, with the path as it is written.
func (b *browser) once(t *testing.T, method, path, body string, fields map[string]string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.suite.Shop+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.sameSite {
		r.Header.Set("Flashsale-Request", "1")
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", b.cookie)
	}
	for k, v := range fields {
		r.Header.Set(k, v)
	}
	if b.suite.From != nil {
		b.suite.From(r, b.i)
	}
	return send(t, b.suite.Transport, r)
}

func send(t *testing.T, transport http.RoundTripper, r *http.Request) response {
	t.Helper()
	a := response{request: r.Method + " " + r.URL.RequestURI()}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", a.request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s: %v", a.request, err)
	}
	a.status, a.header, a.cookies, a.body = resp.StatusCode, resp.Header, resp.Cookies(), string(text)
	_ = json.Unmarshal(text, &a.json) // no members if it is not an object
	return a
}

// want checks the status, the reason of a refusal, and the header fields of every response.
func (a response) want(t *testing.T, status int, reason string) {
	t.Helper()
	if a.status != status || reason != "" && a.json["reason"] != reason {
		t.Fatalf("%s: %d %s, want %d %s", a.request, a.status, a.body, status, reason)
	}
	if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s: X-Content-Type-Options %q", a.request, got)
	}
	if got := a.header.Get("Cache-Control"); !strings.Contains(got, "no-store") && !strings.Contains(got, "no-cache") && got != "public, max-age=1" {
		t.Errorf("%s: Cache-Control %q", a.request, got)
	}
	if reason != "" {
		a.isProblem(t)
	}
}

// wantLayer checks which layer refused.
func (a response) wantLayer(t *testing.T, layer string) {
	t.Helper()
	if got := a.header.Get("Flashsale-Layer"); got != layer || a.json["layer"] != layer {
		t.Errorf("%s: refused by %q (body: %v), want %s", a.request, got, a.json["layer"], layer)
	}
}

// isProblem checks the format of a refusal.
func (a response) isProblem(t *testing.T) {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", a.request, got)
	}
	title, _ := a.json["title"].(string)
	detail, _ := a.json["detail"].(string)
	if a.json["type"] != "about:blank" || title == "" || a.json["status"] != float64(a.status) || detail == "" {
		t.Errorf("%s: the problem is %s", a.request, a.body)
	}
	ms, waits := a.json["retry_after_ms"].(float64)
	field := a.header.Get("Retry-After")
	if waits != (field != "") {
		t.Errorf("%s: Retry-After %q and retry_after_ms %v", a.request, field, a.json["retry_after_ms"])
	}
	if waits {
		seconds, err := strconv.Atoi(field)
		if err != nil || seconds < 1 || ms <= 0 || float64(seconds)*1000 < ms || float64(seconds-1)*1000 >= ms {
			t.Errorf("%s: Retry-After %q is not %v ms rounded up", a.request, field, ms)
		}
	}
}

// wantRetryAfter checks whether a refusal has Retry-After.
func (a response) wantRetryAfter(t *testing.T, want bool) {
	t.Helper()
	if got := a.header.Get("Retry-After") != ""; got != want {
		t.Errorf("%s: Retry-After %q, want one: %v", a.request, a.header.Get("Retry-After"), want)
	}
}

// text returns a member that is a string.
func (a response) text(name string) string {
	s, _ := a.json[name].(string)
	return s
}

// quote encodes s in JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string has an encoding
	return string(b)
}

func object(pairs ...string) string {
	var members []string
	for i := 0; i+1 < len(pairs); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// poll calls done until it returns true or the timeout is over, and reports which.
func poll(every time.Duration, done func() bool) bool {
	for end := time.Now().Add(timeout); !done(); <-time.After(every) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
