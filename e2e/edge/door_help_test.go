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

// A door is a server of nginx that asks Weir, in front of an upstream.
type door struct {
	*nginxtest.Server
	redis    *redistest.Server
	upstream *doorUpstream
	config   nginxtest.Config
	client   *http.Client
}

// doorPhases is what stands in a server whose requests Weir decides about.
const doorPhases = `
    access_by_lua_block { require("weir").access() }
`

// doorPlaces are locations beside what is limited.
const doorPlaces = `
    location = /weir/metrics { access_by_lua_block { return } log_by_lua_block { return } content_by_lua_block { require("weir").metrics() } }
`

// startDoor runs nginx with policies, and what else stands in its server; UPSTREAM in
// that is the address of the upstream, to which / goes if server is empty.
func startDoor(t *testing.T, weir, policies, server string) *door {
	t.Helper()
	redis := redistest.Start(t)
	return startDoorAt(t, weir, redis, redis.Addr, policies, server)
}

// startDoorAt is startDoor with a Redis that is at an address, perhaps not itself.
func startDoorAt(t *testing.T, weir string, redis *redistest.Server, addr, policies, server string) *door {
	t.Helper()
	return startDoorOf(t, weir, redis, addr, policies, server)
}

// startDoorOf is startDoorAt with arguments of weir edge nginx.
func startDoorOf(t *testing.T, weir string, redis *redistest.Server, addr, policies, server string, args ...string) *door {
	t.Helper()
	d := &door{redis: redis, upstream: newDoorUpstream(t)}
	d.config = d.configOf(t, weir, addr, policies, server, args...)
	d.Server = nginxtest.Start(t, d.config)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	d.client = &http.Client{Transport: transport, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return d
}

func (d *door) configOf(t *testing.T, weir, addr, policies, server string, args ...string) nginxtest.Config {
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
  server { listen ADDR reuseport; ` + doorPhases + doorPlaces + server + ` }`}
}

// An answer is what a client got.
type doorAnswer struct {
	status int
	header http.Header
	body   string
}

// ask makes one request; a header is "Name: value".
func (d *door) ask(t *testing.T, method, path string, headers ...string) doorAnswer {
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
	return readDoorAnswer(t, res)
}

func readDoorAnswer(t *testing.T, res *http.Response) doorAnswer {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return doorAnswer{res.StatusCode, res.Header, string(body)}
}

// get is the status of a GET.
func (d *door) get(t *testing.T, path string, headers ...string) int {
	t.Helper()
	return d.ask(t, http.MethodGet, path, headers...).status
}

// want asks for statuses in turn.
func (d *door) want(t *testing.T, path string, statuses ...int) {
	t.Helper()
	for i, want := range statuses {
		if got := d.get(t, path); got != want {
			t.Fatalf("GET %s, %d: status %d, want %d\n%s", path, i+1, got, want, doorErrors(d.Log()))
		}
	}
}

// keys are those in Redis that match.
func (d *door) keys(t *testing.T, pattern string) int {
	t.Helper()
	n, _ := d.redis.Do(t, "EVAL", "return #redis.call('KEYS', ARGV[1])", 0, pattern).(int64)
	return int(n)
}

// metric is the value of a series, or 0, once want fits; it waits for a while for that.
func (d *door) metric(t *testing.T, series string, want float64) {
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
func (d *door) clean(t *testing.T) {
	t.Helper()
	if errs := doorErrors(d.Log()); errs != "" {
		t.Errorf("the log of nginx:\n%s", errs)
	}
}

// doorErrors are the lines of a log that tell of errors.
func doorErrors(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "[error]") || strings.Contains(line, "[alert]") || strings.Contains(line, "[emerg]") ||
			strings.Contains(line, "global Lua variable") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A doorUpstream answers as the query of a request says: status, and a header as
// "set=Name:value". A request with hold=NAME is answered when NAME is let go.
type doorUpstream struct {
	addr string
	seen atomic.Int64

	mu   sync.Mutex
	held map[string]chan struct{}
	came map[string]int
}

func newDoorUpstream(t *testing.T) *doorUpstream {
	u := &doorUpstream{held: map[string]chan struct{}{}, came: map[string]int{}}
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

func (u *doorUpstream) gate(name string) chan struct{} {
	if u.held[name] == nil {
		u.held[name] = make(chan struct{})
	}
	return u.held[name]
}

func (u *doorUpstream) free(name string) {
	select {
	case <-u.gate(name):
	default:
		close(u.gate(name))
	}
}

// let lets the requests that are held under a name go.
func (u *doorUpstream) let(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.free(name)
}

// arrived waits until so many requests are held, or were, under a name.
func (u *doorUpstream) arrived(t *testing.T, name string, n int) {
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

func (u *doorUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
