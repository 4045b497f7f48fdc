package apiclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/apiclient"
)

// TestRequests checks what the server receives.
func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s%s %s", r.Method, r.URL, r.Header["Authorization"], r.Header["Content-Type"], body)
		if r.UserAgent() != access.UserAgent {
			t.Errorf("User-Agent %q", r.UserAgent())
		}
	}))
	defer server.Close()
	u, _ := url.Parse(server.URL + "/weir")
	for _, c := range []struct {
		token string
		query url.Values
		body  any
		limit int64
		want  string
	}{
		{"", nil, nil, 100, "GET /weir/v1/x [][] "},
		{"secret", url.Values{"key": {"a b"}}, nil, 100, "GET /weir/v1/x?key=a+b [Bearer secret][] "},
		{"", nil, map[string]int{"n": 1}, 100, `POST /weir/v1/x [][application/json] {"n":1}`},
		{"", nil, nil, 3, "GET"},
	} {
		got, err := apiclient.Client{URL: u, Token: c.token, Server: "test"}.Read(t.Context(), []string{"v1", "x"}, c.query, c.body, c.limit)
		if err != nil || string(got) != c.want {
			t.Errorf("got %q, %v; want %q", got, err, c.want)
		}
	}
}

// TestErrors checks the texts of errors: with the command, without a password, and without
// characters that change the terminal.
func TestErrors(t *testing.T) {
	status, body := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	u, _ := url.Parse(server.URL)
	host := u.Host
	u.User = url.UserPassword("u", "password")
	check := func(c apiclient.Client, want string) {
		t.Helper()
		c.URL, c.Server = u, "HTTP API of Weir"
		_, err := c.Read(t.Context(), []string{"v1"}, nil, nil, 100)
		if err == nil || !strings.HasPrefix(err.Error()+"\n", want) {
			t.Errorf("got error %q, want %q", err, want)
		}
	}
	key := apiclient.Client{Command: "key", Hint: "Set another URL"}
	status, body = 403, `{"title":"Forbidden","detail":"key: want the role\u001b[2J\noperate"}`
	check(key, "key: http://u:xxxxx@"+host+": Forbidden: want the role\uFFFD[2J\noperate\n")
	check(apiclient.Client{}, "http://u:xxxxx@"+host+": Forbidden: key: want the role")
	for _, body = range []string{"not found", "{}"} {
		status = 404
		check(key, "key: http://u:xxxxx@"+host+": got status 404 Not Found, want the response of the HTTP API of Weir\n")
	}
	server.Close()
	check(key, "key: cannot connect to http://u:xxxxx@"+host+": dial tcp "+host)
	for hint, want := range map[string]string{"": "refused: is `weir serve` running there?", "Set it.": "refused: is `weir serve` running there? Set it."} {
		if _, err := (apiclient.Client{URL: u, Hint: hint}).Read(t.Context(), nil, nil, nil, 1); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got error %q, want %q at its end", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (apiclient.Client{URL: u}).Read(ctx, nil, nil, nil, 1); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("got error %v of a canceled request", err)
	}
}
