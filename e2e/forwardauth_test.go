package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// authPage returns the configurations on the page about forward auth.
func authPage(t *testing.T, of string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/forward-auth.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, b := range all {
		if (b.kind == "nginx" || b.kind == "text") && strings.Contains(b.text, of) {
			found = append(found, b.text)
		}
	}
	return found
}

// authConf is an nginx.conf around the snippet of the page.
const authConf = `
daemon off;
worker_processes 1;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  server { listen 127.0.0.1:READY; location / { return 200 "ready\n"; } }
  PAGE
}
`

// startAuthNginx starts the nginx of the page between clients and an upstream and returns its
// URL.
func startAuthNginx(t *testing.T, weir, upstream string) string {
	t.Helper()
	page := authPage(t, "auth_request /weir;")
	if len(page) != 1 {
		t.Fatalf("the page has %d configurations of nginx, want 1", len(page))
	}
	listen := porttest.Address(t)
	text := strings.NewReplacer("127.0.0.1:8080", weir, "listen 80;", "listen "+listen+";", "http://127.0.0.1:3000", upstream).Replace(page[0])
	startNginx(t, strings.NewReplacer("PAGE", text, "READY", "PORT").Replace(authConf), "/")
	return "http://" + listen
}

// startAuth runs weir with policies and returns the addresses of its HTTP listener and of its
// gateway in front of the upstream.
func startAuth(t *testing.T, upstream, policies string, args ...string) (api, gateway string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := fmt.Sprintf("gateway:\n  routes:\n    - { path: /, upstream: %q }\n%s", upstream, policies)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api, gateway = porttest.Address(t), porttest.Address(t)
	args = append([]string{"serve", file, "--listen-http", api, "--listen-gateway", gateway,
		"--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off"}, args...)
	startProcess(t, programtest.Weir(t), args...)
	awaitStatus(t, "http://"+api+"/healthz", http.StatusOK)
	return api, gateway
}

// echo starts an upstream that responds with the request that it received.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upstream %s %s", r.Method, r.RequestURI)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// curl returns the response that curl prints, with headers and body.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("curl", append([]string{"-sSi", "--path-as-is"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s", args, err, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

func wantAnswer(t *testing.T, what, answer, first string, parts ...string) {
	t.Helper()
	if !strings.HasPrefix(answer, first) {
		t.Errorf("%s:\n%s\nwant %s", what, answer, first)
	}
	for _, p := range parts {
		if !strings.Contains(strings.ToLower(answer), strings.ToLower(p)) {
			t.Errorf("%s:\n%s\nwant it to have %q", what, answer, p)
		}
	}
}

const twoPolicies = `
policies:
  - name: login
    match: /login
    key: [client.ip]
    limits: [2/h]
  - name: all
    match: { methods: [POST] }
    key: [client.ip]
    limits: [1000/h]
`

// TestAuthNginx checks nginx with the configuration of the page. It passes admitted requests
// on and answers denied ones with 429, Retry-After and the RateLimit fields, whatever
// addresses the client claims.
func TestAuthNginx(t *testing.T) {
	upstream := echo(t)
	api, gateway := startAuth(t, upstream, twoPolicies)
	front := startAuthNginx(t, api, upstream)

	wantAnswer(t, "a page without a limit", curl(t, front+"/free?a=b"), "HTTP/1.1 200 OK\n", "upstream GET /free?a=b")
	wantAnswer(t, "the first login", curl(t, front+"/login"), "HTTP/1.1 200 OK\n", "upstream GET /login", `RateLimit: "login";r=1;t=1800`, `RateLimit-Policy: "login";q=2;w=3600`)
	wantAnswer(t, "the second, at the gateway", curl(t, "http://"+gateway+"/login"), "HTTP/1.1 200 OK\n", `RateLimit: "login";r=0;t=`)
	denied := curl(t, front+"/login")
	wantAnswer(t, "the third", denied, "HTTP/1.1 429 Too Many Requests\n", "Retry-After: 1", `RateLimit: "login";r=0;t=1`, `RateLimit-Policy: "login";q=2;w=3600`)
	t.Logf("$ curl -i %s/login\n%s", front, denied)

	for _, spoof := range [][]string{
		{"-H", "X-Forwarded-For: 6.6.6.6"}, {"-H", "X-Forwarded-For: 6.6.6.6, 7.7.7.7"}, {"-H", "Forwarded: for=6.6.6.6"}, {"-H", "X-Real-IP: 6.6.6.6"}, {"-H", "Client-IP: 6.6.6.6"},
		{"-H", "X-Forwarded-Uri: /free"}, {"-H", "X-Original-URI: /free"}, {"-H", "X-Original-URL: http://x/free"},
		{"-H", "X-Forwarded-Method: PUT"}, {"-H", "X-Original-Method: PUT"}, {"-H", "X-Forwarded-Host: evil"}, {"-H", "X_Forwarded_For: 6.6.6.6"},
		{"-H", "Host: evil"}, {"-H", "Connection: X-Forwarded-For, X-Forwarded-Uri"}, {"-H", "Transfer-Encoding: chunked", "-d", "x"}, {"-H", "Content-Length: 0"},
		{"-I"}, {"-X", "PURGE"}, {"-d", "body"}, {"-H", "Expect: 100-continue", "-d", "body"}, {"-H", "X-Http-Method-Override: GET"}, {"-H", "Upgrade: websocket", "-H", "Connection: Upgrade"},
	} {
		wantAnswer(t, fmt.Sprint(spoof), curl(t, append(spoof, front+"/login")...), "HTTP/1.1 429 ")
	}
	for _, path := range []string{
		"/login/", "//login", "///login//", "/./login", "/x/../login", "/%6cogin", "/LOGIN", "/login;x=1", "/login?x=/free", "/login%2f", "/%2flogin", "/x%2f..%2flogin", "/login%3bx", "/%2e/login",
	} {
		answer := curl(t, front+path)
		if !strings.HasPrefix(answer, "HTTP/1.1 429 ") && !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("%s:\n%s\nwant 429", path, answer)
		}
	}
	wantAnswer(t, "a page without a limit, after all", curl(t, "-d", "x", front+"/free"), "HTTP/1.1 200 OK\n", "upstream POST /free", `RateLimit: "all";r=`)
}

// TestAuthStoreGone checks that without the store, Weir and nginx answer as the policies say.
func TestAuthStoreGone(t *testing.T) {
	upstream := echo(t)
	api, _ := startAuth(t, upstream, `
policies:
  - { name: shut, match: /shut, key: [client.ip], limits: [1000/h], on_store_error: closed }
  - { name: ajar, match: /ajar, key: [client.ip], limits: [1000/h] }
`, "--start-degraded", "true", "--store", fmt.Sprintf("redis://127.0.0.1:%d", porttest.Free(t)))
	front := startAuthNginx(t, api, upstream)
	wantAnswer(t, "a closed policy", curl(t, front+"/shut"), "HTTP/1.1 503 ", "Retry-After: 1")
	wantAnswer(t, "an open policy", curl(t, front+"/ajar"), "HTTP/1.1 200 OK\n", "upstream GET /ajar")
	wantAnswer(t, "no policy", curl(t, front+"/"), "HTTP/1.1 200 OK\n")
}

// TestAuthUntrustedProxy checks that an nginx that is not a trusted proxy admits no request.
func TestAuthUntrustedProxy(t *testing.T) {
	upstream := echo(t)
	api, _ := startAuth(t, upstream, "http: { trusted_proxies: [192.0.2.0/24] }\n"+twoPolicies)
	front := startAuthNginx(t, api, upstream)
	wantAnswer(t, "a page", curl(t, front+"/free"), "HTTP/1.1 500 ")
	wantAnswer(t, "what Weir says", curl(t, "-H", "X-Forwarded-Method: GET", "-H", "X-Forwarded-Uri: /free", "-H", "X-Forwarded-For: 192.0.2.1", "http://"+api+"/v1/auth"),
		"HTTP/1.1 403 ", "http.trusted_proxies", `"value":"127.0.0.1:`)
}

// TestAuthCaddy checks the same with both configurations for Caddy.
func TestAuthCaddy(t *testing.T) {
	caddy, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatalf("this test needs a real Caddy: install it (Debian: apt-get install caddy): %v", err)
	}
	pages := authPage(t, "X-Original-Method\n")
	if len(pages) != 2 {
		t.Fatalf("the page has %d configurations of Caddy, want 2", len(pages))
	}
	for i, page := range pages {
		upstream := echo(t)
		api, gateway := startAuth(t, upstream, twoPolicies)
		dir, listen := t.TempDir(), porttest.Address(t)
		text := strings.NewReplacer("http://shop.example", "http://"+listen, "127.0.0.1:8080", api,
			"127.0.0.1:3000", strings.TrimPrefix(upstream, "http://")).Replace(page)
		file := filepath.Join(dir, "Caddyfile")
		if err := os.WriteFile(file, []byte("{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tauto_https off\n\tstorage file_system "+dir+"\n}\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		startProcess(t, caddy, "run", "--config", file, "--adapter", "caddyfile")
		front := "http://" + listen
		awaitStatus(t, front+"/ready", http.StatusOK)

		first := curl(t, front+"/login?denied=200&x=%zz")
		wantAnswer(t, "the first login", first, "HTTP/1.1 200 OK\n", "upstream GET /login?denied=200&x=%zz")
		if i == 1 {
			wantAnswer(t, "the first login", first, "HTTP/1.1 200 OK\n", `RateLimit: "login";r=1;t=1800`, `RateLimit-Policy: "login";q=2;w=3600`)
		}
		wantAnswer(t, "the second, at the gateway", curl(t, "http://"+gateway+"/login"), "HTTP/1.1 200 OK\n")
		for _, spoof := range [][]string{
			nil, {"-H", "X-Forwarded-For: 6.6.6.6"}, {"-H", "X-Forwarded-Uri: /free"}, {"-H", "X-Original-URI: /free"}, {"-H", "X-Original-URL: http://x/free"},
			{"-H", "X-Forwarded-Method: PUT"}, {"-H", "X-Original-Method: PUT"}, {"-H", "Forwarded: for=6.6.6.6"}, {"-d", "body"}, {"-H", "Sec-Fetch-Site: cross-site", "-H", "Origin: https://evil", "-d", "body"},
		} {
			wantAnswer(t, fmt.Sprint(spoof), curl(t, append(spoof, front+"/login")...), "HTTP/1.1 429 Too Many Requests\n",
				"Retry-After: 1", `RateLimit: "login";r=0;t=1`, `"violated-policies":["login"]`)
		}
		for _, path := range []string{"//login", "/x/../login", "/%6cogin", "/login%2f", "/login?denied=403x"} {
			wantAnswer(t, path, curl(t, front+path), "HTTP/1.1 429 ")
		}
		wantAnswer(t, "a page without a limit", curl(t, front+"/free?q=1"), "HTTP/1.1 200 OK\n", "upstream GET /free?q=1")
	}
}
