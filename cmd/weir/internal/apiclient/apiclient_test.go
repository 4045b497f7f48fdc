package apiclient_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
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

// TestWrongPorts checks the texts of errors of servers with another protocol.
func TestWrongPorts(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(handler), httptest.NewUnstartedServer(handler)
	defer plain.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, c := range []struct{ url, want string }{
		{strings.Replace(plain.URL, "http:", "https:", 1), "the port is without TLS: use http:// in the URL"},
		{strings.Replace(secure.URL, "https:", "http:", 1), "the port requires TLS: use https:// in the URL"},
		{secure.URL, "certificate: x509: certificate signed by unknown authority: if its authority is private, set SSL_CERT_FILE"},
		{"http://" + replies(t, ""), "the response is not HTTP (EOF), want that of the HTTP API of Weir"},
		{"http://" + replies(t, "-ERR unknown command\r\n"), "the response is not HTTP ("},
	} {
		u, _ := url.Parse(c.url)
		_, err := apiclient.Client{URL: u, Server: "HTTP API of Weir", Command: "take"}.Read(t.Context(), nil, nil, nil, 1)
		if want := "take: " + c.url + ": " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	u, _ := url.Parse(plain.URL)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := apiclient.Client{URL: u, Command: "take"}.Read(late, nil, nil, nil, 1)
	if err == nil || !strings.Contains(err.Error(), "no response in time (context deadline exceeded): is `weir serve`") {
		t.Errorf("got error %v of a late response", err)
	}
}

// replies returns the address of a server that answers with a text, whatever it is asked, and
// closes the connection.
func replies(t *testing.T, text string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 1<<10))
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
	return listener.Addr().String()
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
