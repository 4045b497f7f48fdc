package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
)

const token = "correct-horse-battery-staple"

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

// open returns a handler with every path.
func open(tb testing.TB, c admin.Config) *admin.Handler {
	tb.Helper()
	c.Pprof = true
	c.Routes = append(c.Routes, []admin.Route{
		{Pattern: "GET /metrics", Summary: "metrics", Role: access.Read, Handler: says("metrics")},
		{Pattern: "/v1/explain", Summary: "explanations", Role: access.Read, Handler: says("explain")},
		{Pattern: "GET /healthz", Summary: "alive", Role: access.Public, Handler: says("ready")},
		{Pattern: "GET /readyz", Summary: "ready", Role: access.Public, Handler: says("ready")},
		{Pattern: "GET /v1/actor/{name}", Role: access.Operate, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.PathValue("name"), access.ActorOf(r.Context()))
		})},
	}...)
	d, err := admin.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// ask sends a request to d. Headers are pairs of name and value, Host and RemoteAddr
// included.
func ask(d http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9090/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			r.Host = headers[i+1]
		case "RemoteAddr":
			r.RemoteAddr = headers[i+1]
		default:
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// paths lists all paths.
var paths = []string{
	"/", "/metrics", "/v1/explain", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/allocs",
	"/debug/pprof/goroutine?debug=1", "/debug/pprof/block", "/debug/pprof/mutex", "/debug/pprof/threadcreate", "/debug/pprof/symbol",
}

func TestPaths(t *testing.T) {
	d := open(t, admin.Config{})
	for _, path := range paths {
		w := ask(d, http.MethodGet, path)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("GET %s = %d %q", path, w.Code, w.Body)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("GET %s: %s: %q, want %q", path, name, got, want)
			}
		}
	}
	index := ask(d, http.MethodGet, "/").Body.String()
	for _, path := range []string{"/metrics ", "/v1/explain ", "/healthz ", "/readyz ", "/debug/pprof/profile ", "/debug/pprof/heap "} {
		if !strings.Contains(index, path) {
			t.Errorf("GET / does not list %s:\n%s", path, index)
		}
	}
}

// TestNotFound checks that paths without a handler do not exist, nor those that other
// packages add to the default ServeMux.
func TestNotFound(t *testing.T) {
	bare, err := admin.New(admin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths[1:] {
		if w := ask(bare, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s = %d without it, want 404", path, w.Code)
		}
	}
	d := open(t, admin.Config{})
	for _, path := range []string{
		"/debug/pprof/cmdline", "/debug/pprof/secret", "/debug/vars", "/debug/requests", "/debug/events", "/metrics/x", "/v1/", "/index.html",
	} {
		w := ask(d, http.MethodGet, path)
		if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("GET %s = %d %s, want a problem with 404", path, w.Code, w.Header())
		}
	}
}

// TestTraversal checks that a path with dot segments is cleaned before it is routed, and
// needs a token before that.
func TestTraversal(t *testing.T) {
	for name, d := range map[string]*admin.Handler{"open": open(t, admin.Config{}), "token": open(t, admin.Config{Token: token})} {
		server := httptest.NewServer(d)
		client := server.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for _, path := range []string{
			"/../../etc/passwd", "/..%2f..%2fetc/passwd", "/v1/%2e%2e/%2e%2e/etc/passwd", "/debug/pprof/../../etc/passwd",
			"/debug/pprof/..%2f..%2f..%2fetc%2fpasswd", "/x//../../etc/passwd", "/metrics%00", `/..\..\etc\passwd`,
		} {
			r, err := http.NewRequest(http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque = path
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			cleaned := res.StatusCode/100 == 3 && !strings.Contains(res.Header.Get("Location"), "..")
			want := res.StatusCode == http.StatusNotFound || cleaned
			if name == "token" {
				want = res.StatusCode == http.StatusUnauthorized
			}
			if !want || bytes.Contains(body, []byte("root:")) {
				t.Errorf("%s: GET %s = %d %s %.80q", name, path, res.StatusCode, res.Header.Get("Location"), body)
			}
		}
		server.Close()
	}
}

func TestMethods(t *testing.T) {
	d := open(t, admin.Config{})
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} {
			if path == "/v1/explain" {
				continue // which says itself what it takes
			}
			if w := ask(d, method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s = %d %s", method, path, w.Code, w.Header())
			}
		}
		if w := ask(d, http.MethodHead, path); w.Code != http.StatusOK {
			t.Errorf("HEAD %s = %d", path, w.Code)
		}
	}
}

// TestToken checks that no path responds without the token, also on loopback.
func TestToken(t *testing.T) {
	d := open(t, admin.Config{Token: token})
	basic := func(user, password string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for _, test := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"none", nil, 401},
		{"empty", []string{"Authorization", ""}, 401},
		{"scheme alone", []string{"Authorization", "Bearer"}, 401},
		{"nothing after the scheme", []string{"Authorization", "Bearer "}, 401},
		{"wrong", []string{"Authorization", "Bearer " + token + "x"}, 401},
		{"the beginning of it", []string{"Authorization", "Bearer " + token[:len(token)-1]}, 401},
		{"other case", []string{"Authorization", "Bearer " + strings.ToUpper(token)}, 401},
		{"without a scheme", []string{"Authorization", token}, 401},
		{"another scheme", []string{"Authorization", "Digest " + token}, 401},
		{"two", []string{"Authorization", "Bearer " + token, "Authorization", "Bearer x"}, 401},
		{"as the user", []string{"Authorization", basic(token, "")}, 401},
		{"in the address", []string{"X-Token", token, "Sec-Fetch-Site", "none", "Cookie", "token=" + token}, 401},
		{"right", []string{"Authorization", "Bearer " + token}, 200},
		{"right, scheme in another case", []string{"Authorization", "bearer " + token}, 200},
		{"right, in a browser", []string{"Authorization", basic("admin", token)}, 200},
		{"right, by name", []string{"Authorization", "Bearer " + token, "Host", "weir.internal:9090"}, 200},
		{"right, from a page elsewhere", []string{"Authorization", "Bearer " + token, "Origin", "https://evil.example"}, 403},
	} {
		for i, path := range paths {
			from := fmt.Sprintf("198.51.100.%d:1", i+1) // each has its tries
			w := ask(d, http.MethodGet, path, append(test.headers, "RemoteAddr", from)...)
			want := test.status
			if !slices.Contains(test.headers, "Authorization") && (path == "/healthz" || path == "/readyz") {
				want = 200
			}
			if w.Code != want {
				t.Fatalf("%s: GET %s = %d, want %d", test.name, path, w.Code, want)
			}
			if w.Code == 401 && (len(w.Header()["Www-Authenticate"]) != 2 || strings.Contains(w.Body.String(), token)) {
				t.Errorf("%s: GET %s = %v %s", test.name, path, w.Header(), w.Body)
			}
		}
		d = open(t, admin.Config{Token: token})
	}
	if w := ask(d, http.MethodGet, "/metrics?token="+token); w.Code != 401 {
		t.Errorf("a token in the address, where logs keep it = %d, want 401", w.Code)
	}
}

// TestGuessing checks that an address may send ten wrong tokens, and then one every six
// seconds.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := open(t, admin.Config{Token: token, Log: slog.New(slog.NewTextHandler(&log, nil))})
		get := func(shown, from string) *httptest.ResponseRecorder {
			return ask(d, http.MethodGet, "/metrics", "Authorization", "Bearer "+shown, "RemoteAddr", from)
		}
		for i := range 10 {
			if w := get("guess", fmt.Sprint("192.0.2.1:", 1000+i)); w.Code != 401 {
				t.Fatalf("guess %d = %d", i+1, w.Code)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 10 || strings.Contains(log.String(), "guess") || !strings.Contains(log.String(), "from=192.0.2.1") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
		for _, shown := range []string{"guess", token} { // or it could be found by going on
			if w := get(shown, "192.0.2.1:1"); w.Code != 429 || w.Header().Get("Retry-After") != "6" {
				t.Errorf("after ten guesses %q = %d, Retry-After %q, want 429 and 6", shown, w.Code, w.Header().Get("Retry-After"))
			}
		}
		if w := get(token, "192.0.2.2:1"); w.Code != 200 {
			t.Errorf("from another address = %d", w.Code)
		}
		if w := ask(d, http.MethodGet, "/metrics", "RemoteAddr", "192.0.2.1:1"); w.Code != 401 {
			t.Errorf("with no token = %d", w.Code)
		}
		time.Sleep(6 * time.Second)
		if w := get(token, "192.0.2.1:1"); w.Code != 200 {
			t.Errorf("six seconds later = %d", w.Code)
		}
		for range 1000 { // the right token costs no tries
			if w := get(token, "192.0.2.1:1"); w.Code != 200 {
				t.Fatalf("the right token = %d", w.Code)
			}
		}

		log.Reset()
		statuses := map[int]int{}
		for i := range 20 { // one network, twenty addresses
			statuses[get("guess", fmt.Sprintf("[2001:db8::%x]:1", i+1)).Code]++
		}
		if statuses[401] != 10 || statuses[429] != 10 {
			t.Errorf("from twenty addresses of one network: %v", statuses)
		}
		for i := range 5000 { // many machines: the log is no place for them
			get("guess", fmt.Sprintf("10.%d.%d.1:1", i/250, i%250))
		}
		if n := strings.Count(log.String(), "\n"); n > 20 {
			t.Errorf("%d lines at once, want at most 20", n)
		}
	})
}

// TestPages checks that pages of other origins get nothing, by any name of this machine.
func TestPages(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"curl", nil, 200},
		{"typed in", []string{"Sec-Fetch-Site", "none"}, 200},
		{"its own page", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:9090"}, 200},
		{"localhost", []string{"Host", "localhost:9090"}, 200},
		{"Localhost.", []string{"Host", "LOCALHOST."}, 200},
		{"IPv6", []string{"Host", "[::1]:9090"}, 200},
		{"another site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", []string{"Origin", "https://evil.example"}, 403},
		{"another port in an old browser", []string{"Origin", "http://127.0.0.1:8000"}, 403},
		{"a file", []string{"Origin", "null"}, 403},
		{"garbage", []string{"Origin", "http://%zz"}, 403},
		{"a cookie without an origin", []string{"Cookie", "a=b"}, 403},
		{"a cookie of this origin", []string{"Cookie", "a=b", "Sec-Fetch-Site", "same-origin"}, 200},
		{"a cookie in an old browser", []string{"Cookie", "a=b", "Origin", "http://127.0.0.1:9090"}, 200},
		{"two origins", []string{"Origin", "http://127.0.0.1:9090", "Origin", "https://evil.example"}, 403},
		{"rebinding", []string{"Host", "evil.example:9090"}, 403},
		{"rebinding, same origin", []string{"Host", "evil.example:9090", "Origin", "http://evil.example:9090", "Sec-Fetch-Site", "same-origin"}, 403},
		{"a name like an address", []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"a name like localhost", []string{"Host", "localhost.evil.example"}, 403},
		{"no host", []string{"Host", ""}, 403},
		{"a long host", []string{"Host", strings.Repeat("x", 10_000) + "\xff"}, 403},
	} {
		d := open(t, admin.Config{})
		for _, path := range paths {
			w := ask(d, http.MethodGet, path, test.headers...)
			if w.Code != test.status || w.Code == 403 && w.Body.Len() > 1000 {
				t.Errorf("%s: GET %s = %d, want %d", test.name, path, w.Code, test.status)
			}
		}
		if w := ask(d, http.MethodPost, "/v1/explain", test.headers...); w.Code != test.status {
			t.Errorf("%s: POST /v1/explain = %d, want %d", test.name, w.Code, test.status)
		}
	}
}

func TestProfilesAreBounded(t *testing.T) {
	d := open(t, admin.Config{})
	for _, query := range []string{
		"seconds=61", "seconds=0", "seconds=-1", "seconds=1e9", "seconds=99999999999999999999", "seconds=", "seconds=1&seconds=600",
		"debug=3", "gc=2", "gc=x", "seconds=1&x=y",
	} {
		for _, path := range []string{"/debug/pprof/profile", "/debug/pprof/trace", "/debug/pprof/heap"} {
			w := ask(d, http.MethodGet, path+"?"+query)
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"expected":"`) {
				t.Errorf("GET %s?%s = %d %s", path, query, w.Code, w.Body)
			}
		}
	}
	server := httptest.NewServer(d)
	defer server.Close()
	res, err := http.Get(server.URL + "/debug/pprof/trace?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !bytes.HasPrefix(b, []byte("go 1.")) {
		t.Errorf("a trace = %d %.20q %v", res.StatusCode, b, err)
	}
}

func TestBadToken(t *testing.T) {
	for _, bad := range []string{"short", strings.Repeat("x", 15), "correct horse battery", "correct-horse-battery\n", "correct-horse-battéry", "\x00" + token} {
		if _, err := admin.New(admin.Config{Token: bad}); !errors.Is(err, weir.ErrInvalid) || strings.Contains(err.Error(), bad) {
			t.Errorf("token %q: %v", bad, err)
		}
	}
}

// TestConsole checks which requests for the start page get the console.
func TestConsole(t *testing.T) {
	d := open(t, admin.Config{Console: says("console"), Token: token})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, test := range []struct {
		name, method, path string
		headers            []string
		status             int
		body               string
	}{
		{"browser", "GET", "/", []string{"Accept", browser}, 200, "console"},
		{"link on another page", "GET", "/", []string{"Accept", browser, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200, "console"},
		{"frame on another page", "GET", "/", []string{"Accept", browser, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403, ""},
		{"link to a profile", "GET", "/debug/pprof/profile", []string{"Accept", browser, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403, ""},
		{"curl", "GET", "/", []string{"Accept", "*/*", "Authorization", "Bearer " + token}, 200, "/metrics"},
		{"curl without token", "GET", "/", []string{"Accept", "*/*"}, 401, ""},
		{"text", "GET", "/", []string{"Accept", "text/plain", "Authorization", "Bearer " + token}, 200, "/metrics"},
		{"POST", "POST", "/", []string{"Accept", browser}, 401, ""},
		{"another path", "GET", "/metrics", []string{"Accept", browser}, 401, ""},
	} {
		w := ask(d, test.method, test.path, test.headers...)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s: %s %s = %d %s, want %d %s", test.name, test.method, test.path, w.Code, w.Body, test.status, test.body)
		}
	}
}

// TestActor checks the actor that handlers get.
func TestActor(t *testing.T) {
	for _, test := range []struct {
		name    string
		token   string
		headers []string
		want    string
	}{
		{"no token", "", nil, "x{local operate http}"},
		{"page", "", []string{"Sec-Fetch-Site", "same-origin"}, "x{local operate web}"},
		{"command", "", []string{"User-Agent", access.UserAgent}, "x{local operate cli}"},
		{"token", token, []string{"Authorization", "Bearer " + token}, "x{admin operate http}"},
	} {
		w := ask(open(t, admin.Config{Token: test.token}), http.MethodGet, "/v1/actor/x", test.headers...)
		if w.Body.String() != test.want {
			t.Errorf("%s: %s, want %s", test.name, w.Body, test.want)
		}
	}
}

// TestBadRoutes checks that a route needs a role, and a pattern of its own.
func TestBadRoutes(t *testing.T) {
	x := admin.Route{Pattern: "GET /x", Role: access.Read, Handler: says("x")}
	for _, routes := range [][]admin.Route{{{Pattern: "GET /x", Handler: says("x")}}, {x, x}, {{Pattern: "GET /{$}", Role: access.Read, Handler: says("x")}}} {
		if _, err := admin.New(admin.Config{Routes: routes}); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%v: %v, want an error", routes, err)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add("GET", "/metrics", "127.0.0.1:9090", "", "", "Bearer "+token)
	f.Add("POST", "/v1/explain", "evil.example", "https://evil.example", "cross-site", "Basic eDp5")
	d := open(f, admin.Config{Token: token})
	f.Fuzz(func(t *testing.T, method, path, host, origin, site, authorization string) {
		if strings.HasPrefix(path, "/debug/pprof/profile") || strings.HasPrefix(path, "/debug/pprof/trace") {
			return // they take their time
		}
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Method, r.Host, r.RemoteAddr = method, host, host
		r.URL.Path = path
		r.Header["Origin"], r.Header["Sec-Fetch-Site"], r.Header["Authorization"] = []string{origin}, []string{site}, []string{authorization}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		health := (path == "/healthz" || path == "/readyz")
		if w.Code < 300 && !health && !strings.Contains(authorization, token) && !strings.HasPrefix(strings.ToLower(authorization), "basic") {
			t.Errorf("%s %s with %q = %d", method, path, authorization, w.Code)
		}
	})
}
