package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/cmd/weir/internal/nodes/nodestest"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// A node is a running Live with what it needs.
type node struct {
	*live.Live
	recorder *traffic.Recorder
	set      *policy.Set
	names    *keyid.Names
	mux      *http.ServeMux
	stop     func()
}

// start runs a node; without a Redis if r is nil. The policies are login (5/m) and api (10/s).
func start(t *testing.T, r *nodestest.Redis, name string, c live.Config) *node {
	t.Helper()
	n := &node{recorder: traffic.New(traffic.Config{Seed: 1}), names: keyid.New(), mux: http.NewServeMux()}
	var all []*policy.Policy
	for _, p := range [][2]string{{"api", "10/s"}, {"login", "5/m"}} {
		p, err := policy.New(policy.Config{Name: p[0], Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit(p[1])}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	var err error
	if n.set, err = policy.NewSet(all...); err != nil {
		t.Fatal(err)
	}
	x := nodes.Config{
		Name: name, State: func() nodes.State { return nodes.State{Version: 41, Store: "up", Mode: "normal"} },
		Snapshot: n.recorder.Snapshot, Details: live.Details(n.recorder), Seed: 1, Secret: n.names.Secret(), UseSecret: n.names.Use,
	}
	if r != nil {
		x.Conn = func() redisstore.Conn { return r }
	}
	if c.Exchange, err = nodes.New(x); err != nil {
		t.Fatal(err)
	}
	c.Recorder, c.Policies, c.Names = n.recorder, func() *policy.Set { return n.set }, n.names
	if n.Live, err = live.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){n.recorder.Run, c.Exchange.Run, n.Run} {
		running.Go(func() { run(ctx) })
	}
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	n.mux.HandleFunc("GET /v1/overview", n.Overview)
	n.mux.HandleFunc("GET /v1/series", n.Series)
	n.mux.HandleFunc("GET /v1/events", n.Events)
	n.mux.HandleFunc("GET /v1/policies/{name}/keys", n.Keys)
	n.mux.HandleFunc("GET /v1/policies/{name}/threshold", n.Threshold)
	return n
}

// count records requests of a policy from one address.
func (n *node) count(policyName, key string, requests int, outcome enforce.Outcome) {
	p := n.set.Policy(policyName)
	for range requests {
		n.recorder.Observe(enforce.Event{Policy: p, Key: key, Outcome: outcome, Took: time.Millisecond, Cost: 1})
	}
}

// as returns a context of an actor.
func as(ctx context.Context, role access.Role) context.Context {
	return access.WithActor(ctx, access.Actor{Name: "test", Role: role})
}

// get requests a path and decodes the response into v.
func (n *node) get(t *testing.T, role access.Role, path string, v any) int {
	t.Helper()
	w := httptest.NewRecorder()
	n.mux.ServeHTTP(w, httptest.NewRequestWithContext(as(t.Context(), role), http.MethodGet, path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("GET %s = %s: %v", path, w.Body, err)
	}
	return w.Code
}

// A client reads a stream in a bubble.
type client struct {
	mu     sync.Mutex
	text   strings.Builder
	status int
	block  chan struct{} // not nil: writes wait for it
	cancel context.CancelFunc
	done   chan struct{}
}

func (c *client) Header() http.Header { return http.Header{} }

func (c *client) WriteHeader(status int) { c.status = status }

func (c *client) SetWriteDeadline(time.Time) error { return nil }
func (c *client) Flush()                           {}

func (c *client) Write(b []byte) (int, error) {
	if c.block != nil {
		<-c.block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

// take returns what came since the last call.
func (c *client) take() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.text.Reset()
	return c.text.String()
}

// connect opens a stream.
func (n *node) connect(t *testing.T, role access.Role, query string, block chan struct{}) *client {
	t.Helper()
	c := &client{block: block, done: make(chan struct{}), status: http.StatusOK}
	ctx, cancel := context.WithCancel(as(t.Context(), role))
	c.cancel = cancel
	go func() {
		n.mux.ServeHTTP(c, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events"+query, nil))
		close(c.done)
	}()
	return c
}

// A pipes is a listener in memory.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, errors.New("closed")
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
