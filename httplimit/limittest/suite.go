package limittest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// Run tests that an adapter behaves like the middleware of net/http.
func Run(t *testing.T, a Adapter) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Adapter)
	}{
		{"same as net/http", testStories},
		{"short form", testLimit},
		{"store error", testStoreError},
		{"a denial ends the chain", testDenial},
		{"limits of routes", testRoutes},
		{"stream", testStream},
		{"hijack", testHijack},
		{"slot after panic", testPanic},
		{"wait", testWait},
		{"concurrent requests", testConcurrent},
		{"protection", testProtect},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, a) })
	}
}

// testStoreError checks open and closed with a store that makes no decision.
func testStoreError(t *testing.T, a Adapter) {
	store, _ := Store(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[policy.FailMode]int{policy.Open: 200, policy.Closed: 503} {
		m := Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: Limits("1/m"), OnStoreError: mode})
		r := Do(t, "GET", a.Serve(t, App{Limit: m, Endpoints: routes()})+"/text")
		if r.Status != want || r.Header.Get(httplimit.DegradedField) != string(mode) {
			t.Errorf("%s: %d %q, want %d", mode, r.Status, r.Header.Get(httplimit.DegradedField), want)
		}
	}
}

// testLimit checks that Limit behaves like a policy that has the user as its key.
func testLimit(t *testing.T, a Adapter) {
	ours, advance := Store(t)
	theirs, follow := Store(t)
	url := a.ServeLimit(t, ours, "1/s burst 2")
	full := serveHTTP(t, App{Endpoints: routes(), Limit: Middleware(t, theirs, httplimit.Config{}, policy.Config{
		Name: "limit", Limits: Limits("1/s burst 2"), Key: []policy.KeyPart{{Source: policy.Header, Name: "X-User"}},
	})})
	compare := func(step int, user string) {
		t.Helper()
		got, want := Do(t, "GET", url+"/text", "X-User: "+user), Do(t, "GET", full+"/text", "X-User: "+user)
		if got.Status != want.Status || got.Body != want.Body {
			t.Errorf("step %d: %d %q, want %d %q", step, got.Status, got.Body, want.Status, want.Body)
		}
		for _, name := range append(httplimit.DefaultFields.Names(), "Retry-After", httplimit.DegradedField) {
			if g, w := got.Header.Values(name), want.Header.Values(name); !slices.Equal(g, w) {
				t.Errorf("step %d: %s: %q, want %q", step, name, g, w)
			}
		}
	}
	for i, user := range []string{"alice", "alice", "alice", "bob", "", "", "", "+1s", "alice", ""} {
		if user == "+1s" {
			advance(time.Second)
			follow(time.Second)
			continue
		}
		compare(i, user)
	}
	_, _ = ours.Close(), theirs.Close()
	compare(-1, "alice") // degraded
	defer func() {
		if recover() == nil {
			t.Error("a limit that does not parse: got no panic")
		}
	}()
	a.ServeLimit(t, ours, "10 per second, please")
}

// testDenial checks that a denied request does not reach the handler.
func testDenial(t *testing.T, a Adapter) {
	store, _ := Store(t)
	m := Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: Limits("1/m")})
	var reached atomic.Int64
	url := a.Serve(t, App{Limit: m, Endpoints: []Endpoint{{Method: "GET", Path: "/text", Handle: func() Response {
		reached.Add(1)
		return Response{Body: "x"}
	}}}})
	for range 3 {
		Do(t, "GET", url+"/text")
	}
	if reached.Load() != 1 {
		t.Errorf("the handler was called %d times, want 1", reached.Load())
	}
}

// testRoutes checks that a route has its own limit besides that of all routes.
func testRoutes(t *testing.T, a Adapter) {
	store, _ := Store(t)
	failures := func(name, limit string) *httplimit.Middleware {
		return Middleware(t, store, httplimit.Config{}, policy.Config{Name: name, Limits: Limits(limit), Count: policy.CountFailures})
	}
	fail := func() Response { return Response{Status: 500} }
	url := a.Serve(t, App{Limit: failures("all", "5/m"), Endpoints: []Endpoint{
		{Method: "GET", Path: "/a", Limit: failures("a", "1/m"), Handle: fail},
		{Method: "GET", Path: "/b", Limit: failures("b", "2/m"), Handle: fail},
		{Method: "GET", Path: "/c", Handle: fail},
	}})
	var got []int
	for _, path := range []string{"/a", "/a", "/b", "/b", "/b", "/c", "/nowhere"} {
		got = append(got, Do(t, "GET", url+path).Status)
	}
	// Denials of routes are failures for the limit of all: the sixth request is denied by it.
	if want := []int{500, 429, 500, 500, 429, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}

// testStream checks that events reach the client while the handler runs, and that a slot is
// held until the stream ends.
func testStream(t *testing.T, a Adapter) {
	slots := policy.Config{Name: "slots", Match: policy.Match{Paths: []string{"/stream"}}, Limits: Limits("1 concurrency lease 30s")}
	for _, c := range []struct {
		name   string
		settle policy.Settle
		left   string
	}{
		{"slot", policy.Settle{}, "17"},
		{"slot and cost in the body", policy.Settle{JSON: "usage.total"}, "7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, _ := Store(t)
			m := Middleware(t, store, httplimit.Config{}, slots, policy.Config{Name: "tokens", Limits: Limits("20/m"), Settle: c.settle})
			more := make(chan struct{})
			url := a.Serve(t, App{Limit: m, Endpoints: append(routes(), Endpoint{Method: "GET", Path: "/stream", Handle: func() Response {
				return Response{
					Header: map[string]string{"Content-Type": "text/event-stream"},
					Events: []string{event("1"), event("6")}, Flushed: func() { <-more },
				}
			}})})
			res, err := http.Get(url + "/stream") // returns when the first event was flushed
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			in := bufio.NewReader(res.Body)
			if line, _ := in.ReadString('\n'); line+"\n" != event("1") {
				t.Errorf("first line %q", line)
			}
			if r := Do(t, "GET", url+"/stream"); r.Status != 429 {
				t.Errorf("during a stream: status %d, want 429", r.Status)
			}
			close(more)
			if rest, err := io.ReadAll(in); err != nil || string(rest) != "\n"+event("6") {
				t.Fatalf("rest of the stream %q, %v", rest, err)
			}
			if r := Do(t, "GET", url+"/stream"); r.Status != 200 {
				t.Errorf("after a stream: status %d, want 200", r.Status)
			}
			if got := Remaining(t, url+"/text"); got != c.left {
				t.Errorf("remaining %s, want %s", got, c.left)
			}
		})
	}
}

// testHijack checks the outcome of a hijacked connection, and its slot.
func testHijack(t *testing.T, a Adapter) {
	store, _ := Store(t)
	m := Middleware(t, store, httplimit.Config{},
		policy.Config{Name: "slots", Limits: Limits("1 concurrency lease 30s")},
		policy.Config{Name: "p", Limits: Limits("2/m"), Count: policy.CountFailures})
	url := a.Serve(t, App{Limit: m, Endpoints: append(routes(), Endpoint{Method: "GET", Path: "/socket", Handle: func() Response {
		return Response{
			Status: 101, Header: map[string]string{"Connection": "Upgrade", "Upgrade": "echo"},
			Hijack: func(rw io.ReadWriter) {
				if !a.HijackedHoldsNoSlot {
					_, _ = io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				}
				_, _ = io.CopyN(rw, rw, 5)
			},
		}
	}})})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("upgrade: %v %v", res, err)
	}
	want := 429
	if a.HijackedHoldsNoSlot {
		want = 200
	}
	if r := Do(t, "GET", url+"/text"); r.Status != want {
		t.Errorf("during a hijacked connection: status %d, want %d", r.Status, want)
	}
	_, _ = io.WriteString(conn, "ping\n")
	if line, err := in.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("echo %q, %v", line, err)
	}
	// The connection ends before the handler has returned, and the slot is released before
	// the other limit is settled.
	settled := func(r ClientResponse) bool {
		return r.Status == 200 && strings.Contains(r.Header.Get("RateLimit"), `"p";r=1`)
	}
	r := Do(t, "GET", url+"/text")
	for range 1000 {
		if settled(r) {
			break
		}
		r = Do(t, "GET", url+"/text")
	}
	if !settled(r) {
		t.Errorf("after a hijacked connection: %d %s, want 200 and r=1", r.Status, r.Header.Get("RateLimit"))
	}
}

// testPanic checks that a handler that panics returns its slot.
func testPanic(t *testing.T, a Adapter) {
	store, _ := Store(t)
	m := Middleware(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: Limits("1 concurrency lease 30s")})
	url := a.Serve(t, App{Recover: true, Limit: m, Endpoints: []Endpoint{{Method: "GET", Path: "/text", Handle: func() Response { panic("no") }}}})
	for i := range 3 {
		if r := Do(t, "GET", url+"/text"); r.Status != 500 {
			t.Fatalf("request %d: status %d, want 500", i, r.Status)
		}
	}
}

// testWait checks that requests wait as their policy says.
func testWait(t *testing.T, a Adapter) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m := Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: Limits("100/s burst 1"), OnDenied: policy.OnDenied{Wait: time.Minute}})
	url := a.Serve(t, App{Limit: m, Endpoints: routes()})
	began := time.Now()
	for range 5 {
		if r := Do(t, "GET", url+"/text"); r.Status != 200 {
			t.Fatalf("status %d, want 200", r.Status)
		}
	}
	if took := time.Since(began); took < 35*time.Millisecond {
		t.Errorf("five requests at 100/s took %v, want 40ms or more", took)
	}
}

// testConcurrent checks that concurrent requests get exactly the limit.
func testConcurrent(t *testing.T, a Adapter) {
	store, _ := Store(t)
	m := Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: Limits("40/m")}, policy.Config{Name: "tokens", Limits: Limits("1000/m"), Settle: policy.Settle{JSON: "usage.total"}})
	url := a.Serve(t, App{Limit: m, Endpoints: routes()})
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				switch Do(t, "GET", url+"/json").Status {
				case 200:
					admitted.Add(1)
				case 429:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 40 || denied.Load() != 40 {
		t.Errorf("%d admitted, %d denied, want 40 and 40", admitted.Load(), denied.Load())
	}
}
