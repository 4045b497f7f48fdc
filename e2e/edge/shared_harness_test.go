package edge_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// writePolicies writes a policy file whose store is a Redis. Without a failover section, the
// deadline is long enough for a busy machine.
func writePolicies(t testing.TB, redis, text string) string {
	t.Helper()
	if !strings.Contains(text, "failover:") {
		text = "failover: { deadline: 5s }\n" + text
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("store: redis://"+redis+"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// edgeConf returns the output of weir edge nginx, for the http block.
func edgeConf(t testing.TB, weir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(weir, append([]string{"edge", "nginx", "--lua", nginxtest.Edge(t)}, args...)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("weir edge nginx %q: %v\n%s", args, err, &problems)
	}
	return string(out)
}

// asks is a location that Weir limits and that responds by itself.
const asks = `
    access_by_lua_block { require("weir").access() }
    content_by_lua_block { ngx.print("through\n") }
`

// startEdge runs nginx with Lua and a policy file, limited at every path except /warm.
func startEdge(t testing.TB, weir, file string, workers int, args ...string) *nginxtest.Server {
	t.Helper()
	conf := edgeConf(t, weir, append(args, file)...)
	return nginxtest.Start(t, nginxtest.Config{Workers: workers, HTTP: conf + `
  server { listen ADDR reuseport; location = /warm { return 204; } location / {` + asks + `} }`})
}

// A reply is a response, or the error without one.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

// A caller sends requests from one loopback address and keeps its connections.
type caller struct{ http *http.Client }

// callFrom returns a caller whose connections are closed at the end of the test.
func callFrom(t testing.TB, ip string) *caller {
	t.Helper()
	transport := &http.Transport{
		DialContext:           (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext,
		MaxIdleConnsPerHost:   256,
		ResponseHeaderTimeout: 20 * time.Second,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get requests a URL, with headers in pairs.
func (c *caller) get(url string, fields ...string) reply {
	began := time.Now()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return reply{err: err}
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		return reply{err: err, took: time.Since(began)}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: string(body), err: err, took: time.Since(began)}
}

// atOnce sends n requests from as many clients at the same moment, after each has opened a
// connection with a request to another path.
func (c *caller) atOnce(n int, base, path, warm string) []reply {
	all := make([]reply, n)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range all {
		ready.Add(1)
		done.Go(func() {
			c.get(base + warm)
			ready.Done()
			<-start
			all[i] = c.get(base + path)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return all
}
