package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestHandlerGetsTheWriterItself checks that the handler gets the server's writer.
func TestHandlerGetsTheWriterItself(t *testing.T) {
	m, err := httplimit.New(fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("100/s")}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got http.ResponseWriter
	w := httptest.NewRecorder()
	m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w })).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got != w {
		t.Errorf("the handler got %T, want the writer that was given", got)
	}
}

func TestRealServer(t *testing.T) {
	m, err := httplimit.New(fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("100/s")}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		_, _ = io.WriteString(w, "first")
		if err := c.Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
		_, _ = io.WriteString(w, " second")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\nraw")
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("the writer is no io.ReaderFrom: sendfile is lost")
		}
	})
	srv := httptest.NewServer(m.Wrap(mux))
	defer srv.Close()

	res, err := http.Get(srv.URL + "/flush")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	if string(body) != "first second" || res.ContentLength != -1 || res.Header.Get("X-RateLimit-Limit") != "100" {
		t.Errorf("flushed answer = %q, length %d, limit %q", body, res.ContentLength, res.Header.Get("X-RateLimit-Limit"))
	}
	if _, err := http.Get(srv.URL + "/read"); err != nil {
		t.Fatal(err)
	}

	r, _ := http.NewRequest("GET", srv.URL+"/hijack", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "test")
	res, err = http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(res.Body).ReadString('\n')
	if res.StatusCode != 101 || line != "raw" {
		t.Errorf("hijacked answer = %d %q, want 101 raw", res.StatusCode, line)
	}
}

func TestDenialOfHEADHasNoBody(t *testing.T) {
	m, err := httplimit.New(fakestore.Answering(weir.Decision{RetryAfter: time.Second}), set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(m.Wrap(hello))
	defer srv.Close()
	res, err := http.Head(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 429 || res.ContentLength <= 0 {
		t.Errorf("HEAD = %d with Content-Length %d, want 429 with the length of a body", res.StatusCode, res.ContentLength)
	}
}

// TestNothingIsEchoed checks that a response contains nothing that a client sent, and that two
// clients that are denied for the same reason get the same response.
func TestNothingIsEchoed(t *testing.T) {
	p := policy.Config{
		Name: "p", Limits: limits("1/h"),
		Key: []policy.KeyPart{{Source: policy.Header, Name: "X-User"}, {Source: policy.Query, Name: "q"}, {Source: policy.Cookie, Name: "c"}, {Source: policy.Method}},
	}
	answers := map[string]bool{}
	for _, store := range []weir.Store{fakestore.Answering(weir.Decision{RetryAfter: time.Second}), fakestore.Answering(weir.Decision{OK: true}), fakestore.Failing(weir.ErrUnavailable)} {
		p.OnStoreError = policy.Closed
		h := wrap(t, store, set(t, p), httplimit.Config{})
		clear(answers)
		for _, user := range []string{"needle", "needle\r\nX-Evil: 1", "needle\x00", "needle😀"} {
			r := httptest.NewRequest("GET", "/needle?q=needle", nil)
			r.Header["X-User"] = []string{user}
			r.AddCookie(&http.Cookie{Name: "c", Value: "needle"})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var b strings.Builder
			_ = w.Header().Write(&b)
			answer := fmt.Sprint(w.Code, b.String(), w.Body)
			if strings.Contains(answer, "needle") || strings.Contains(answer, "Evil") {
				t.Errorf("user %q is echoed: %s", user, answer)
			}
			answers[answer] = true
		}
		if len(answers) != 1 {
			t.Errorf("users who are treated alike get %d different answers: %v", len(answers), answers)
		}
	}
}

func must(t *testing.T, target string) *url.URL {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestKeysOfARequest checks the keys of a request.
func TestKeysOfARequest(t *testing.T) {
	store, keys := recording()
	h := wrap(t, store, set(t, policy.Config{
		Name: "p", Limits: limits("1/s"), Match: policy.Match{Paths: []string{"/users/{id}"}, Hosts: []string{"a.example"}},
		Key: []policy.KeyPart{
			{Source: policy.ClientIP}, {Source: policy.Method}, {Source: policy.Host}, {Source: policy.Path}, {Source: policy.Header, Name: "x-user"},
			{Source: policy.Query, Name: "q"}, {Source: policy.Cookie, Name: "c"}, {Source: policy.Constant, Name: "k"},
		},
	}), httplimit.Config{})
	for _, target := range []string{"/users%2f7/?q=x&q=x&z=%zz", "/users/7?q=x#1", "/users/7?q=x#&q=y"} { // nginx ends a query at #
		r := httptest.NewRequest("PUT", "http://A.example:80/", nil)
		r.URL, r.Host = must(t, target), "A.example:80"
		r.Header.Set("X-User", "bob")
		r.AddCookie(&http.Cookie{Name: "c", Value: "v"})
		r.RemoteAddr = "[2001:db8::1]:5"
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := "p|13:2001:db8::/64|3:PUT|9:a.example|11:/users/{id}|3:bob|1:x|1:v|1:k"
	if len(keys) != 1 || !keys[want] {
		t.Errorf("keys = %v, want %s", keys, want)
	}
}
