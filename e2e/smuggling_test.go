package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// echoConf is an nginx that responds with the request that it parsed. It distinguishes its own
// paths after its usual decoding.
const echoConf = `
daemon off;
worker_processes 1;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 256; }
http {
  log_format received '$request_method $request_uri';
  access_log DIR/access.log received;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  server {
    listen 127.0.0.1:PORT;
    location = /login { return 200 "login $request_uri\n"; }
    location /login/ { return 200 "login $request_uri\n"; }
    location / { return 200 "other $request_uri\n"; }
  }
}
`

// startEcho starts it and returns its URL and the requests that it received.
func startEcho(t *testing.T) (url string, received func() []string) {
	t.Helper()
	n := startNginx(t, echoConf, "/ready")
	return n.url, func() []string {
		data, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
}

// converse is conversation with a gateway, and fails the test on an error.
func converse(t *testing.T, gateway, text string) []string {
	t.Helper()
	answers, err := conversation(strings.TrimPrefix(gateway, "http://"), text)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// conversation sends bytes on a new connection and returns the responses until the connection
// ends, each with its status first.
func conversation(address, text string) (answers []string, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, err
	}
	br := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			return answers, nil
		}
		body, _ := io.ReadAll(res.Body)
		answers = append(answers, fmt.Sprintf("%d %s", res.StatusCode, strings.TrimSpace(string(body))))
	}
}

// TestTrafficSmuggling sends requests whose length is ambiguous. nginx behind the gateway
// receives exactly the requests that the gateway parsed and limited, in order, and the next
// client gets its own response. nginx may receive the headers of a first request whose body is
// broken.
func TestTrafficSmuggling(t *testing.T) {
	upstream, received := startEcho(t)
	gateway := startGateway(t, programtest.Weir(t), upstream, "memory", "1000000/s")
	const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	size := strconv.Itoa(len(hidden))
	head := "POST /outer HTTP/1.1\r\nHost: x\r\n"
	chunked := "Transfer-Encoding: chunked\r\n"
	end := "0\r\n\r\n"
	last := "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, text := range map[string]string{
		"CL.TE":                    head + "Content-Length: " + strconv.Itoa(len(end+hidden)) + "\r\n" + chunked + "\r\n" + end + hidden,
		"TE.CL":                    head + chunked + "Content-Length: 4\r\n\r\n" + fmt.Sprintf("%x\r\n", len(hidden)) + hidden + "\r\n" + end,
		"CL.TE behind a tab":       head + "Content-Length: " + strconv.Itoa(len(end+hidden)) + "\r\nTransfer-Encoding:\tchunked\r\n\r\n" + end + hidden,
		"TE folded":                head + "Content-Length: " + strconv.Itoa(len(end+hidden)) + "\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + end + hidden,
		"TE with space":            head + "Content-Length: " + strconv.Itoa(len(end+hidden)) + "\r\nTransfer-Encoding : chunked\r\n\r\n" + end + hidden,
		"TE twice":                 head + chunked + "Transfer-Encoding: identity\r\n\r\n" + end + hidden,
		"TE xchunked":              head + "Transfer-Encoding: xchunked\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"TE chunked, identity":     head + "Transfer-Encoding: chunked, identity\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"TE in HTTP/1.0":           "POST /outer HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n" + chunked + "\r\n" + end + hidden,
		"TE in a header's value":   head + "X: y\rTransfer-Encoding: chunked\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"TE after a bare LF":       head + "X: y\nTransfer-Encoding: chunked\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"TE with NUL":              head + "Transfer-Encoding: \x00chunked\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"CL twice":                 head + "Content-Length: 0\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"CL twice the same":        head + "Content-Length: " + size + "\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"CL list":                  head + "Content-Length: 0, " + size + "\r\n\r\n" + hidden,
		"CL with a sign":           head + "Content-Length: +" + size + "\r\n\r\n" + hidden,
		"CL negative":              head + "Content-Length: -1\r\n\r\n" + hidden,
		"CL in hex":                head + fmt.Sprintf("Content-Length: 0x%x\r\n\r\n", len(hidden)) + hidden,
		"CL beyond 64 bits":        head + "Content-Length: 18446744073709551616\r\n\r\n" + hidden,
		"CL folded":                head + "Content-Length:\r\n " + size + "\r\n\r\n" + hidden,
		"CL of a GET":              "GET /outer HTTP/1.1\r\nHost: x\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"CL with underscore":       head + "Content_Length: " + size + "\r\n\r\n" + hidden,
		"chunk extension":          head + chunked + "\r\n" + "0;" + strings.Repeat("x", 100) + "\r\n\r\n" + hidden,
		"chunk extension, bare LF": head + chunked + "\r\n" + "0;\n\r\n\r\n" + hidden,
		"chunk size, bare LF":      head + chunked + "\r\n" + fmt.Sprintf("%x\n", len(hidden)) + hidden + "\r\n" + end,
		"chunk size with 0x":       head + chunked + "\r\n" + fmt.Sprintf("0x%x\r\n", len(hidden)) + hidden + "\r\n" + end,
		"chunk size with a sign":   head + chunked + "\r\n" + "+0\r\n\r\n" + hidden,
		"chunk size too large":     head + chunked + "\r\n" + "10000000000000000\r\n" + hidden,
		"chunk too long":           head + chunked + "\r\n" + "3\r\nabcXX0\r\n\r\n" + hidden,
		"trailer":                  head + chunked + "Trailer: Content-Length\r\n\r\n" + "0\r\nContent-Length: " + size + "\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n" + hidden,
		"line in a header's name":  head + "X\r\n\r\nGET /hidden HTTP/1.1: y\r\n\r\n",
		"line in the path":         "GET /outer%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\n\r\n",
		"space in the path":        "GET /outer HTTP/1.1 /hidden HTTP/1.1\r\nHost: x\r\n\r\n",
		"two pipelined":            "GET /outer HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		"expectation":              head + "Expect: 100-continue\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"expectation of more":      head + "Expect: y 100-continue\r\nContent-Length: 0\r\n\r\n" + hidden,
		"upgrade with a body":      head + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"CL named by Connection":   head + "Connection: Content-Length\r\nContent-Length: " + size + "\r\n\r\n" + hidden,
		"TE named by Connection":   head + "Connection: Transfer-Encoding\r\n" + chunked + "\r\n" + fmt.Sprintf("%x\r\n", len(hidden)) + hidden + "\r\n" + end,
	} {
		before := len(received())
		answers := converse(t, gateway, text+last)
		var from []string // requests that nginx answered
		for _, a := range answers {
			if uri, ok := strings.CutPrefix(a, "200 other "); ok && uri != "/outer" {
				from = append(from, uri)
			}
		}
		canary := "/canary-" + strconv.Itoa(before)
		if got := converse(t, gateway, "GET "+canary+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); len(got) != 1 || got[0] != "200 other "+canary {
			t.Errorf("%s: the next client requests %s and gets %q", name, canary, got)
		}
		var uris []string
		for deadline := time.Now().Add(time.Minute); len(uris) == 0 || uris[len(uris)-1] != canary; { // nginx writes its log later
			uris = nil
			for _, line := range received()[before:] {
				if _, uri, _ := strings.Cut(line, " "); uri != "/outer" {
					uris = append(uris, uri)
				}
			}
			if time.Now().After(deadline) {
				break
			}
		}
		if want := append(from, canary); strings.Join(uris, " ") != strings.Join(want, " ") {
			t.Errorf("%s: the gateway answered %q, and nginx saw %q, want %q", name, answers, uris, want)
		}
		t.Logf("%-26s %q", name, answers)
	}
}

const spellingFile = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM" }
policies:
  - name: login
    match: { paths: ["/login"] }
    key: ["const:all-clients"]
    limits: ["1/24h"]
`

// TestTrafficSpelling checks that after the only login of a day, no spelling of the path that
// nginx maps to it is admitted.
func TestTrafficSpelling(t *testing.T) {
	upstream, _ := startEcho(t)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(spellingFile, "UPSTREAM", upstream)), 0o600); err != nil {
		t.Fatal(err)
	}
	listen, api := porttest.Address(t), porttest.Address(t)
	startProcess(t, programtest.Weir(t), "serve", file, "--listen-gateway", listen, "--listen-http", api)
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	ask := func(gateway, path string) string {
		answers := converse(t, gateway, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if len(answers) == 0 {
			return ""
		}
		return answers[0]
	}
	if got := ask(listen, "/login"); got != "200 login /login" {
		t.Fatalf("the first login = %q", got)
	}
	below := []string{"/login/*"} // a different path, for the policy and for nginx
	paths := []string{
		"/login", "/login/", "//login", "/./login", "/x/../login", "/login/.", "/login/x/..", "/%6cogin", "/%6Cogin", "/login%2f", "/login%2F", "/%2flogin", "%2flogin",
		"/%2e/login", "/x/%2e%2e/login", "/x%2f..%2flogin", "/x/..%2flogin", "/x/..;/login", "/login;x=1", "/login;", "/;x/login", "/login%3b", "/login?", "/login?x=/other", "/login#x", "/login%23",
		"/login%3f", "/login%00", "/login%20", "/login%0a", "/login\\", "\\login", "/\\login", "/LOGIN", "/Login", "/log%69n", "/log%256n", "/%256cogin", "/login//", "///login///",
		"http://x/login", "http://other/login", "HTTP://x/login", "http:///login", "/login/../login", "/../login", "/..//login", "/%c0%afogin", "/login%c0%af", "/\u006cogin", "/ｌogin",
		"/login/..", "/login/%2e%2e/login", "/a%5c..%5clogin", "/a\\..\\login", "/.//login", "/login%09", "/login\t", "*", "/login/*", "/login&x", "/login=x", "/login,x", "/login.", "/login.html",
	}
	own := 0
	for _, path := range paths {
		if strings.HasPrefix(ask(upstream, path), "200 login ") {
			own++
		}
		if got := ask(listen, path); strings.HasPrefix(got, "200 login ") && !slices.Contains(below, path) {
			t.Errorf("%s = %q, want 429", path, got)
		}
	}
	if own < 20 {
		t.Errorf("nginx maps %d of the spellings to /login, want more", own)
	}
	t.Logf("%d spellings, of which nginx maps %d to /login", len(paths), own)
}
