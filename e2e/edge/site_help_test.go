package edge_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// A site is an nginx server with Weir in front of an upstream.
type site struct {
	*nginxtest.Server
	redis    *redistest.Server
	upstream *siteUpstream
	config   nginxtest.Config
	client   *http.Client
}

// sitePhases are the directives of a server that Weir limits.
const sitePhases = `
    access_by_lua_block { require("weir").access() }
`

// siteLocations are locations beside the limited ones.
const siteLocations = `
    location = /weir/metrics { access_by_lua_block { return } log_by_lua_block { return } content_by_lua_block { require("weir").metrics() } }
`

// startSite runs nginx with policies and a server block, in which it replaces UPSTREAM.
// Without a server block, / goes to the upstream.
func startSite(t *testing.T, weir, policies, server string) *site {
	t.Helper()
	redis := redistest.Start(t)
	return startSiteAt(t, weir, redis, redis.Addr, policies, server)
}

// startSiteAt is startSite with the address of a Redis, or of a proxy in front of it.
func startSiteAt(t *testing.T, weir string, redis *redistest.Server, addr, policies, server string) *site {
	t.Helper()
	return startSiteWith(t, weir, redis, addr, policies, server)
}

// startSiteWith is startSiteAt with arguments of weir edge nginx.
func startSiteWith(t *testing.T, weir string, redis *redistest.Server, addr, policies, server string, args ...string) *site {
	t.Helper()
	d := &site{redis: redis, upstream: newSiteUpstream(t)}
	d.config = d.configOf(t, weir, addr, policies, server, args...)
	d.Server = nginxtest.Start(t, d.config)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	d.client = &http.Client{Transport: transport, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return d
}

func (d *site) configOf(t *testing.T, weir, addr, policies, server string, args ...string) nginxtest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("store: redis://"+addr+"\nfailover: { deadline: 2s }\n"+policies), 0o600); err != nil {
		t.Fatal(err)
	}
	if server == "" {
		server = `location / { proxy_pass http://UPSTREAM; }`
	}
	server = strings.ReplaceAll(server, "UPSTREAM", d.upstream.addr)
	return nginxtest.Config{Workers: 2, HTTP: edgeConf(t, weir, append(args, file)...) + `
  server { listen ADDR reuseport; ` + sitePhases + siteLocations + server + ` }`}
}

// A siteResponse is a response as its client received it.
type siteResponse struct {
	status int
	header http.Header
	body   string
}

// ask sends one request; a header is "Name: value".
func (d *site) ask(t *testing.T, method, path string, headers ...string) siteResponse {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+d.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	res, err := d.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, d.Log())
	}
	return readSiteResponse(t, res)
}

func readSiteResponse(t *testing.T, res *http.Response) siteResponse {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return siteResponse{res.StatusCode, res.Header, string(body)}
}

// get returns the status of a GET.
func (d *site) get(t *testing.T, path string, headers ...string) int {
	t.Helper()
	return d.ask(t, http.MethodGet, path, headers...).status
}

// want sends requests and checks their statuses in order.
func (d *site) want(t *testing.T, path string, statuses ...int) {
	t.Helper()
	for i, want := range statuses {
		if got := d.get(t, path); got != want {
			t.Fatalf("GET %s, %d: status %d, want %d\n%s", path, i+1, got, want, logErrors(d.Log()))
		}
	}
}

// keys returns the number of keys in Redis that match a pattern.
func (d *site) keys(t *testing.T, pattern string) int {
	t.Helper()
	n, _ := d.redis.Do(t, "EVAL", "return #redis.call('KEYS', ARGV[1])", 0, pattern).(int64)
	return int(n)
}

// metric waits until a series has a value; 0 matches a missing series.
func (d *site) metric(t *testing.T, series string, want float64) {
	t.Helper()
	redistest.Await(t, series, func() error {
		for line := range strings.Lines(d.ask(t, "GET", "/weir/metrics").body) {
			if text, ok := strings.CutPrefix(line, series+" "); ok {
				if got, _ := strconv.ParseFloat(strings.TrimSpace(text), 64); got == want {
					return nil
				}
				return fmt.Errorf("got %s, want %v", strings.TrimSpace(text), want)
			}
		}
		if want == 0 {
			return nil
		}
		return fmt.Errorf("no such series, want %v", want)
	})
}

// clean fails the test if nginx logged an error.
func (d *site) clean(t *testing.T) {
	t.Helper()
	if errs := logErrors(d.Log()); errs != "" {
		t.Errorf("the log of nginx:\n%s", errs)
	}
}

// logErrors returns the lines of a log that report errors.
func logErrors(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "[error]") || strings.Contains(line, "[alert]") || strings.Contains(line, "[emerg]") ||
			strings.Contains(line, "global Lua variable") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A siteUpstream responds as the query of a request says: with a status, and a header as
// "set=Name:value". With hold=NAME it delays the response until NAME is released.
type siteUpstream struct {
	addr string
	seen atomic.Int64

	mu   sync.Mutex
	held map[string]chan struct{}
	came map[string]int
}

func newSiteUpstream(t *testing.T) *siteUpstream {
	u := &siteUpstream{held: map[string]chan struct{}{}, came: map[string]int{}}
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		u.mu.Lock()
		for name := range u.held {
			u.free(name)
		}
		u.mu.Unlock()
		s.Close()
	})
	u.addr = strings.TrimPrefix(s.URL, "http://")
	return u
}

func (u *siteUpstream) gate(name string) chan struct{} {
	if u.held[name] == nil {
		u.held[name] = make(chan struct{})
	}
	return u.held[name]
}

func (u *siteUpstream) free(name string) {
	select {
	case <-u.gate(name):
	default:
		close(u.gate(name))
	}
}

// let releases the delayed requests of a name.
func (u *siteUpstream) let(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.free(name)
}

// arrived waits until n requests with a name have arrived.
func (u *siteUpstream) arrived(t *testing.T, name string, n int) {
	t.Helper()
	redistest.Await(t, "requests held under "+name, func() error {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.came[name] < n {
			return fmt.Errorf("got %d, want %d", u.came[name], n)
		}
		return nil
	})
}

func (u *siteUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.seen.Add(1)
	q := r.URL.Query()
	io.Copy(io.Discard, r.Body)
	if name := q.Get("hold"); name != "" {
		u.mu.Lock()
		u.came[name]++
		gate := u.gate(name)
		u.mu.Unlock()
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	for _, set := range q["set"] {
		name, value, _ := strings.Cut(set, ":")
		w.Header().Add(name, value)
	}
	status := 200
	if text := q.Get("status"); text != "" {
		status, _ = strconv.Atoi(text)
	}
	body := "through\n"
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(bytes.NewBufferString(body).Bytes())
}
