package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// nginxPage returns the one block of the nginx page that has a kind and contains a text.
func nginxPage(t *testing.T, kind, of string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/nginx.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := blocks(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, b := range all {
		if b.kind == kind && strings.Contains(b.text, of) {
			found = append(found, b.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the page has %d blocks of %s with %q, want 1", len(found), kind, of)
	}
	return found[0]
}

// startGatewayOfPage runs weir with a file of the page, but with another upstream, and returns
// the address of its gateway.
func startGatewayOfPage(t *testing.T, of, upstream string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := strings.ReplaceAll(nginxPage(t, "yaml", of), "http://127.0.0.1:3000", upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, api := porttest.Address(t), porttest.Address(t)
	startProcess(t, programtest.Weir(t), "serve", file, "--listen-gateway", gateway, "--listen-http", api)
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	return gateway
}

// waysUpstream responds with the client address that it received; at /stream in two parts, the
// second after more is closed; at /socket with its input in capitals.
func waysUpstream(t *testing.T, more chan struct{}) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("X-Accel-Buffering", "no")
			fmt.Fprint(w, "data: one\n")
			w.(http.Flusher).Flush()
			select {
			case <-more:
				fmt.Fprint(w, "data: two\n")
			case <-r.Context().Done():
			}
		case "/socket":
			shout(w, r)
		default:
			fmt.Fprintf(w, "upstream for %s of %s", r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Host"))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// shout switches to a protocol of lines and responds to each in capitals.
func shout(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "shout" {
		http.Error(w, "want an upgrade", http.StatusBadRequest)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(c, strings.ToUpper(line))
	}
}

// wantStream checks that the first part of a stream arrives before the second is sent.
func wantStream(t *testing.T, front string, more chan struct{}) {
	t.Helper()
	res, err := http.Get(front + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make(chan string, 1)
	body := bufio.NewReader(res.Body)
	go func() {
		line, _ := body.ReadString('\n')
		first <- line
	}()
	select {
	case line := <-first:
		if line != "data: one\n" {
			t.Errorf("the first line of the stream = %q", line)
		}
	case <-time.After(time.Minute):
		t.Error("the stream is held back")
	}
	close(more)
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "data: two\n" {
		t.Errorf("the rest of the stream = %q, %v", rest, err)
	}
}

// wantSocket checks that a server passes a protocol upgrade on, in both directions.
func wantSocket(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade = %v, %v", res, err)
	}
	for _, line := range []string{"hello\n", "again\n"} {
		fmt.Fprint(c, line)
		if got, err := r.ReadString('\n'); err != nil || got != strings.ToUpper(line) {
			t.Errorf("%q = %q, %v", line, got, err)
		}
	}
}

// spoofed lists headers by which a client claims another address.
var spoofed = [][]string{
	{"-H", "X-Forwarded-For: 6.6.6.6"}, {"-H", "X-Forwarded-For: 6.6.6.6, 7.7.7.7"}, {"-H", "X-Forwarded-For: 127.0.0.1"},
	{"-H", "X-Forwarded-For;"}, {"-H", "X-Forwarded-For: 6.6.6.6", "-H", "X-Forwarded-For: 7.7.7.7"},
	{"-H", "x_forwarded_for: 6.6.6.6"}, {"-H", "Forwarded: for=6.6.6.6"}, {"-H", "X-Real-IP: 6.6.6.6"},
	{"-H", "Connection: X-Forwarded-For"}, {"-H", "Host: evil.example"}, {"-I"}, {"-d", "body"},
}

// TestNginxBeforeGateway checks that behind the nginx of the page, each client has the bucket
// of its own address, whatever it claims. Requests that reach the gateway directly are not
// trusted.
func TestNginxBeforeGateway(t *testing.T) {
	more := make(chan struct{})
	gateway := startGatewayOfPage(t, "# behind.yaml", waysUpstream(t, more))
	listen := porttest.Address(t)
	conf := strings.NewReplacer("127.0.0.1:8000", gateway, "listen 80;", "listen "+listen+";").Replace(nginxPage(t, "nginx", "server 127.0.0.1:8000;"))
	nginxtest.Start(t, nginxtest.Config{Main: " ", HTTP: conf + "\nserver { listen ADDR; }"})
	front := "http://" + listen

	wantAnswer(t, "the first", curl(t, "--interface", "127.0.0.7", "-H", "Host: shop.example", front), "HTTP/1.1 200 OK\n",
		"upstream for 127.0.0.7, 127.0.0.1 of shop.example", `RateLimit: "per-client";r=2;t=1200`)
	wantAnswer(t, "the second, with a query", curl(t, "--interface", "127.0.0.7", front+"/a%2fb?x=%zz"), "HTTP/1.1 200 OK\n", `;r=1;t=`)
	wantAnswer(t, "another client", curl(t, "--interface", "127.0.0.8", front), "HTTP/1.1 200 OK\n", "upstream for 127.0.0.8, ", `;r=2;t=1200`)
	wantAnswer(t, "the third", curl(t, "--interface", "127.0.0.7", "-H", "X-Forwarded-For: 6.6.6.6", front), "HTTP/1.1 200 OK\n", "upstream for 127.0.0.7, 127.0.0.1 of", `;r=0;t=`)
	for _, header := range spoofed {
		wantAnswer(t, fmt.Sprint(header), curl(t, append([]string{"--interface", "127.0.0.7"}, append(header, front)...)...), "HTTP/1.1 429 Too Many Requests\n",
			"Retry-After: 1", `RateLimit: "per-client";r=0;t=1`, `RateLimit-Policy: "per-client";q=3;w=3600`)
	}
	wantAnswer(t, "a denial's body", curl(t, "--interface", "127.0.0.7", front), "HTTP/1.1 429 ", "Content-Type: application/problem+json", `"violated-policies":["per-client"]`)

	for i, want := range []string{"HTTP/1.1 200 ", "HTTP/1.1 200 ", "HTTP/1.1 200 ", "HTTP/1.1 429 "} {
		wantAnswer(t, "past nginx", curl(t, "--interface", "127.0.0.9", "-H", fmt.Sprintf("X-Forwarded-For: 6.6.6.%d", i), "http://"+gateway), want)
	}
	wantStream(t, front, more)
	wantSocket(t, listen)
}

// TestNginxBehindGateway checks that the nginx of the page, behind the gateway, receives the
// client's address from the gateway and no spoofed one.
func TestNginxBehindGateway(t *testing.T) {
	more := make(chan struct{})
	upstream := waysUpstream(t, more)
	listen := porttest.Address(t)
	conf := strings.NewReplacer("listen 127.0.0.1:3000;", "listen "+listen+";", "root /var/www/html;", `return 200 "nginx saw $remote_addr\n";`).
		Replace(nginxPage(t, "nginx", "set_real_ip_from 127.0.0.1;\n  real_ip_header"))
	pass := `location /s { proxy_pass ` + upstream + `; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; }`
	conf = conf[:strings.LastIndex(conf, "}")] + pass + "}\n"
	nginxtest.Start(t, nginxtest.Config{Main: " ", HTTP: conf + "\nserver { listen ADDR; }"})
	gateway := startGatewayOfPage(t, "# before.yaml", "http://"+listen)
	front := "http://" + gateway

	wantAnswer(t, "the first", curl(t, "--interface", "127.0.0.7", front), "HTTP/1.1 200 OK\n", "nginx saw 127.0.0.7\n", `RateLimit: "per-client";r=2;t=1200`)
	wantAnswer(t, "the second", curl(t, "--interface", "127.0.0.7", "-H", "X-Forwarded-For: 6.6.6.6", front), "HTTP/1.1 200 OK\n", "nginx saw 127.0.0.7\n", `;r=1;t=`)
	wantAnswer(t, "the third", curl(t, "--interface", "127.0.0.7", "-H", "X-Forwarded-For: 127.0.0.1, 127.0.0.1", front), "HTTP/1.1 200 OK\n", "nginx saw 127.0.0.7\n", `;r=0;t=`)
	for _, header := range spoofed {
		wantAnswer(t, fmt.Sprint(header), curl(t, append([]string{"--interface", "127.0.0.7"}, append(header, front)...)...), "HTTP/1.1 429 ", "Retry-After: 1")
	}
	wantAnswer(t, "another client", curl(t, "--interface", "127.0.0.8", front), "HTTP/1.1 200 OK\n", "nginx saw 127.0.0.8\n")
	wantStream(t, front, more)
	wantSocket(t, gateway)
}

// TestNginxAuthRequestStreams checks that auth_request does not change what passes, streams
// included, and that the request to Weir has no body.
func TestNginxAuthRequestStreams(t *testing.T) {
	more := make(chan struct{})
	upstream := waysUpstream(t, more)
	api, _ := startAuth(t, upstream, twoPolicies)
	front := startAuthNginx(t, api, upstream)
	wantAnswer(t, "a body", curl(t, "-d", strings.Repeat("x", 4<<10), front+"/free"), "HTTP/1.1 200 OK\n", "upstream for", `RateLimit: "all";r=999;`)
	wantStream(t, front, more)
}

// TestNginxWithoutWeir checks that without Weir, nginx admits no request, or every request if
// it is configured so, as the page says.
func TestNginxWithoutWeir(t *testing.T) {
	upstream := echo(t)
	closed := porttest.Address(t)
	wantAnswer(t, "as it is", curl(t, startAuthNginx(t, closed, upstream)+"/free"), "HTTP/1.1 500 ")

	open := strings.Split(nginxPage(t, "nginx", "location @unasked"), "\n\n")
	if len(open) != 2 {
		t.Fatalf("the page shows %q", open)
	}
	conf := authPage(t, "auth_request /weir;")[0]
	listen := porttest.Address(t)
	conf = strings.NewReplacer("internal;\n", "internal;\n"+strings.TrimPrefix(open[0], "# in location = /weir\n")+"\n", "location @limited", open[1]+"\n  location @limited",
		"127.0.0.1:8080", closed, "listen 80;", "listen "+listen+";", "http://127.0.0.1:3000", upstream).Replace(conf)
	nginxtest.Start(t, nginxtest.Config{Main: " ", HTTP: conf + "\nserver { listen ADDR; }"})
	wantAnswer(t, "without Weir, open", curl(t, "http://"+listen+"/free"), "HTTP/1.1 200 OK\n", "upstream GET /free")
}

// TestNginxDecides checks nginx with the Lua, the configuration and the servers of the page.
func TestNginxDecides(t *testing.T) {
	weir, redis, dir := programtest.Weir(t), redistest.Start(t), t.TempDir()
	file := filepath.Join(dir, "shop.yaml")
	text := strings.ReplaceAll(nginxPage(t, "yaml", "# shop.yaml"), "127.0.0.1:6379", redis.Addr) + "failover: { deadline: 5s }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lua := filepath.Join(dir, "lua")
	prints(t, weir, "edge", "lua", lua)
	generated := prints(t, weir, "edge", "nginx", file, "--lua", lua, "--policies", "store")
	logins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" && r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, "upstream")
	}))
	defer logins.Close()
	static := filepath.Join(dir, "static")
	if err := os.MkdirAll(static, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(static, "a.txt"), []byte("a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	listen, metrics := porttest.Address(t), porttest.Address(t)
	servers := strings.NewReplacer("listen 80;", "listen "+listen+";", "127.0.0.1:9113", metrics, "http://127.0.0.1:3000", logins.URL, "root /var/www;", "root "+dir+";").
		Replace(nginxPage(t, "nginx", `access_by_lua_block { require("weir")`))
	server := nginxtest.Start(t, nginxtest.Config{Workers: 2, HTTP: generated + servers + "server { listen ADDR; location / { return 204; } }"})
	front := "http://" + listen

	first := curl(t, "--interface", "127.0.0.7", "-H", "X-Forwarded-For: 6.6.6.6", front+"/")
	wantAnswer(t, "the first", first, "HTTP/1.1 200 OK\n", `RateLimit-Policy: "per-client/1";q=40;w=2, "per-client/2";q=5000;w=86400`, "upstream")
	wantAnswer(t, "the second", curl(t, "--interface", "127.0.0.7", "-H", "X-Forwarded-For: 7.7.7.7", front+"/"), "HTTP/1.1 200 OK\n", `"per-client/2";r=4998;`)
	for range 5 {
		wantAnswer(t, "a login", curl(t, "-d", "x", front+"/login"), "HTTP/1.1 401 ")
	}
	wantAnswer(t, "a login too many", curl(t, "-d", "x", front+"/%6cogin/"), "HTTP/1.1 429 Too Many Requests\n", "Retry-After: ", `"violated-policies":["login"]`)
	wantAnswer(t, "another's, from elsewhere", curl(t, "--interface", "127.0.0.8", "-d", "x", "-H", "Authorization: ok", front+"/login"), "HTTP/1.1 200 OK\n")
	if answer := curl(t, front+"/static/a.txt"); !strings.HasSuffix(answer, "a file") || strings.Contains(strings.ToLower(answer), "ratelimit") {
		t.Errorf("a file:\n%s\nwant no limit", answer)
	}
	redistest.Await(t, "the counts of all workers", func() error { // each worker flushes its counts once a second
		if answer := curl(t, "http://"+metrics+"/metrics"); !strings.HasPrefix(answer, "HTTP/1.1 200 OK\n") ||
			!strings.Contains(answer, "\nweir_decisions_total{") || !strings.Contains(answer, `policy="login"`) {
			return errors.New(answer)
		}
		return nil
	})

	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "5000/24h", "100/24h")), 0o600); err != nil {
		t.Fatal(err)
	}
	prints(t, weir, "apply", file, "--store", "redis://"+redis.Addr)
	redistest.Await(t, "the published policies", func() error {
		if answer := curl(t, "--interface", "127.0.0.9", front+"/"); !strings.Contains(answer, `"per-client/2";q=100;w=86400`) {
			return errors.New(answer)
		}
		return nil
	})
	if log := server.Log(); strings.Contains(log, "reconfiguring") || strings.Contains(log, "[error]") {
		t.Errorf("the log of nginx:\n%s", log)
	}
}

// TestNginxPhases checks the phases of nginx: responses before the access phase are not
// limited, requests refused there take no token, and internal redirects are not limited again.
func TestNginxPhases(t *testing.T) {
	weir, redis, dir := programtest.Weir(t), redistest.Start(t), t.TempDir()
	file, lua := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "lua")
	text := "store: redis://" + redis.Addr + "\nfailover: { deadline: 5s }\npolicies:\n  - { name: all, key: client.ip, limits: 5/h, on_store_error: closed }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	prints(t, weir, "edge", "lua", lua)
	server := nginxtest.Start(t, nginxtest.Config{HTTP: prints(t, weir, "edge", "nginx", file, "--lua", lua) + `
server {
  listen ADDR;
  access_by_lua_block        { require("weir").access() }
  location /return { return 200 "returned"; }
  location /moved { rewrite ^ /elsewhere redirect; }
  location /denied { deny all; try_files /none =404; }
  location /secret { auth_basic "secret"; auth_basic_user_file DIR/users; try_files /none =404; }
  location /any { satisfy any; deny all; auth_basic "secret"; auth_basic_user_file DIR/users; try_files /none =404; }
  location /asked { auth_request /yes; error_page 404 = @end; try_files /none =404; }
  location = /yes { internal; proxy_pass http://ADDR2/; }
  location @end { content_by_lua_block { ngx.print("ended") } }
  location / { try_files /none @end; }
}
server { listen ADDR2; location / { return 204; } }`})
	front := "http://" + server.Addr
	for _, c := range []struct{ path, first, left string }{
		{"/return", "HTTP/1.1 200 ", ""},
		{"/moved", "HTTP/1.1 302 ", ""},
		{"/denied", "HTTP/1.1 403 ", ""},
		{"/secret", "HTTP/1.1 401 ", ""},
		{"/any", "HTTP/1.1 401 ", "r=4;"}, // limited, because a later phase could admit it, and then refused
		{"/end", "HTTP/1.1 200 ", "r=3;"},
		{"/asked", "HTTP/1.1 200 ", "r=2;"},
		{"/end", "HTTP/1.1 200 ", "r=1;"},
		{"/", "HTTP/1.1 200 ", "r=0;"},
		{"/", "HTTP/1.1 429 ", "r=0;"},
		{"/any", "HTTP/1.1 ", ""},
		{"/return", "HTTP/1.1 200 ", ""},
	} {
		answer := curl(t, front+c.path)
		t.Logf("%s: %s", c.path, strings.SplitN(answer, "\n", 2)[0])
		wantAnswer(t, c.path, answer, c.first, c.left)
		if c.left == "" && c.path != "/any" && strings.Contains(strings.ToLower(answer), "ratelimit") {
			t.Errorf("%s:\n%s\nwant no limit", c.path, answer)
		}
	}
}
