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
	hour     = time.Hour
	moment   = 1500 * time.Millisecond // until a sale that is to be exposed first starts
	patience = 20 * time.Second        // for whatever has to happen
)

type suite struct {
	Target
	clients atomic.Int64
}

// A browser is a client with cookies and an address of its own.
type browser struct {
	s      *suite
	i      int
	cookie string
	user   string
	site   bool // it says that its pages ask
}

func (s *suite) browser() *browser { return &browser{s: s, i: int(s.clients.Add(1)), site: true} }

// guest is a browser with a session.
func (s *suite) guest(t *testing.T) *browser {
	t.Helper()
	b := s.browser()
	a := b.do(t, "POST", "/api/session", "", nil)
	a.is(t, http.StatusCreated, "")
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

// An answered request.
type answered struct {
	what    string
	status  int
	header  http.Header
	cookies []*http.Cookie
	body    string
	json    map[string]any
}

// do sends a request, and again while its address or its user is told to wait.
func (b *browser) do(t *testing.T, method, path, body string, fields map[string]string) answered {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		a := b.once(t, method, path, body, fields)
		layer := a.header.Get("Flashsale-Layer")
		if a.status != http.StatusTooManyRequests || layer != "L1" && layer != "L2" && layer != "L4" || time.Now().After(end) {
			return a
		}
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			t.Fatalf("%s: 429 with Retry-After %q", a.what, a.header.Get("Retry-After"))
		}
		<-time.After(time.Duration(seconds) * time.Second)
	}
}

// once sends one request. The address is the path as it is written.
func (b *browser) once(t *testing.T, method, path, body string, fields map[string]string) answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.s.Shop+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.site {
		r.Header.Set("Flashsale-Request", "1")
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", b.cookie)
	}
	for k, v := range fields {
		r.Header.Set(k, v)
	}
	if b.s.From != nil {
		b.s.From(r, b.i)
	}
	return send(t, b.s.Transport, r)
}

func send(t *testing.T, transport http.RoundTripper, r *http.Request) answered {
	t.Helper()
	a := answered{what: r.Method + " " + r.URL.RequestURI()}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", a.what, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s: %v", a.what, err)
	}
	a.status, a.header, a.cookies, a.body = resp.StatusCode, resp.Header, resp.Cookies(), string(text)
	_ = json.Unmarshal(text, &a.json) // of what is no object there are no members
	return a
}

// is checks the status and, of a refusal, the reason; and what every answer has.
func (a answered) is(t *testing.T, status int, reason string) {
	t.Helper()
	if a.status != status || reason != "" && a.json["reason"] != reason {
		t.Fatalf("%s: %d %s, want %d %s", a.what, a.status, a.body, status, reason)
	}
	if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s: X-Content-Type-Options %q", a.what, got)
	}
	if got := a.header.Get("Cache-Control"); !strings.Contains(got, "no-store") && !strings.Contains(got, "no-cache") {
		t.Errorf("%s: Cache-Control %q", a.what, got)
	}
	if reason != "" {
		a.isProblem(t)
	}
}

// by checks which layer refused.
func (a answered) by(t *testing.T, layer string) {
	t.Helper()
	if got := a.header.Get("Flashsale-Layer"); got != layer || a.json["layer"] != layer {
		t.Errorf("%s: refused by %q (body: %v), want %s", a.what, got, a.json["layer"], layer)
	}
}

// isProblem checks the form of a refusal.
func (a answered) isProblem(t *testing.T) {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", a.what, got)
	}
	title, _ := a.json["title"].(string)
	detail, _ := a.json["detail"].(string)
	if a.json["type"] != "about:blank" || title == "" || a.json["status"] != float64(a.status) || detail == "" {
		t.Errorf("%s: the problem is %s", a.what, a.body)
	}
	ms, waits := a.json["retry_after_ms"].(float64)
	field := a.header.Get("Retry-After")
	if waits != (field != "") {
		t.Errorf("%s: Retry-After %q and retry_after_ms %v", a.what, field, a.json["retry_after_ms"])
	}
	if waits {
		seconds, err := strconv.Atoi(field)
		if err != nil || seconds < 1 || ms <= 0 || float64(seconds)*1000 < ms || float64(seconds-1)*1000 >= ms {
			t.Errorf("%s: Retry-After %q is not %v ms rounded up", a.what, field, ms)
		}
	}
}

// retries checks that a refusal says when to come again, or that it does not.
func (a answered) retries(t *testing.T, want bool) {
	t.Helper()
	if got := a.header.Get("Retry-After") != ""; got != want {
		t.Errorf("%s: Retry-After %q, want one: %v", a.what, a.header.Get("Retry-After"), want)
	}
}

// text is a member that is a text.
func (a answered) text(name string) string {
	s, _ := a.json[name].(string)
	return s
}

// quote spells s in JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // a text has a spelling
	return string(b)
}

func object(pairs ...string) string {
	var members []string
	for i := 0; i+1 < len(pairs); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
	}
	return "{" + strings.Join(members, ",") + "}"
}
