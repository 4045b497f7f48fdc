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

// writePolicies writes a file of policies whose store is a Redis. Without a section
// failover in it, a decision may take as long as a busy machine needs.
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

// edgeConf is what weir edge nginx prints, to be read before the servers of nginx.
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

// asks is a location that asks Weir in the access phase and answers by itself.
const asks = `
    access_by_lua_block { require("weir").access() }
    content_by_lua_block { ngx.print("through\n") }
`

// startEdge runs nginx with Lua that decides by a file of policies, at every path but
// /warm.
func startEdge(t testing.TB, weir, file string, workers int, args ...string) *nginxtest.Server {
	t.Helper()
	conf := edgeConf(t, weir, append(args, file)...)
	return nginxtest.Start(t, nginxtest.Config{Workers: workers, HTTP: conf + `
  server { listen ADDR reuseport; location = /warm { return 204; } location / {` + asks + `} }`})
}

// A reply is what a client got, or the error by which it got nothing.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

// A caller asks from one address of the loopback interface, on connections that it
// keeps.
type caller struct{ http *http.Client }

// callFrom makes a caller; its connections end with the test.
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

// get asks for a URL, with fields of the request in pairs.
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

// atOnce has n requests made by as many clients at the same moment, once all of them
// have a connection, which they get at another path.
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
