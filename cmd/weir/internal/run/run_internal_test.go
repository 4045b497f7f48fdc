package run

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// settings returns the configuration of a program with one policy in front of one
// upstream, on free ports.
func settings(t *testing.T, upstream string, p policy.Config) *config.Config {
	t.Helper()
	one, err := policy.New(p)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(one)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return &config.Config{
		File: "weir.yaml", Store: "memory", Policies: set, Drain: patient,
		HTTP:    config.HTTP{Listen: "127.0.0.1:0"},
		GRPC:    config.GRPC{Listen: config.Off},
		RESP:    config.RESP{Listen: config.Off},
		Admin:   config.Admin{Listen: config.Off},
		Gateway: config.Gateway{Listen: "127.0.0.1:0", Routes: []weirfile.Route{{Path: "/", Upstream: u}}},
	}
}

func perClient(limit string) policy.Config {
	return policy.Config{Name: "per-client", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit(limit)}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// with starts the interfaces over a store of the test.
func with(t *testing.T, c *config.Config, store weir.Store, log *slog.Logger) *Program {
	t.Helper()
	in := Input{Config: c}
	p := newProgram(in, log)
	var err error
	if p.observers, err = newObservers(t.Context(), c, "", func(string) string { return "" }, log); err != nil {
		t.Fatal(err)
	}
	p.onStop(p.observers.close)
	p.stores = &stores{name: "test"}
	p.onStop(func(context.Context) { p.stores.close() })
	if err := p.stores.build(store, c, p.observers.metrics, log); err != nil {
		t.Fatal(err)
	}
	if err := p.start(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func status(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// TestExactBurst checks that with the clock at a stand, exactly the burst goes through,
// however many ask at once, and only that reaches the upstream.
func TestExactBurst(t *testing.T) {
	const burst, requests, clients = 37, 400, 16
	var reached atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer up.Close()
	now := int64(1_700_000_000_000_000)
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	p := with(t, settings(t, up.URL, perClient(fmt.Sprintf("1/s burst %d", burst))), store, discard())
	var got [600]atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range requests / clients {
				got[status(t, p.gateway.url())].Add(1)
			}
		})
	}
	wg.Wait()
	if a, d := got[200].Load(), got[429].Load(); a != burst || d != requests-burst || reached.Load() != burst {
		t.Errorf("%d requests: %d admitted, %d denied, %d reached the upstream; want %d, %d, %d", requests, a, d, reached.Load(), burst, requests-burst, burst)
	}
}

// TestNotReadyBeforeAllListen checks that once /readyz succeeds, the gateway accepts
// connections.
func TestNotReadyBeforeAllListen(t *testing.T) {
	p := with(t, settings(t, "http://127.0.0.1:1", perClient("1/s")), gone{}, discard())
	accepting := func() (detail string) {
		for _, c := range p.ready.checks(t.Context()) {
			if c.Name == "accepting" {
				detail = c.Detail
			}
		}
		return detail
	}
	if got := accepting(); got != "" {
		t.Errorf("after the start: accepting %q, want no such check", got)
	}
	p.ready.open.Store(false)
	if got := accepting(); got != "the program is starting" {
		t.Errorf("before that: accepting %q, want that the program is starting", got)
	}
}

// limitsFile returns the name of a configuration for the gRPC interface.
func limitsFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(name, []byte("domain: d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestStopFailsReadinessFirst checks that stop makes /readyz fail while the listeners are
// still open, and then closes them.
func TestStopFailsReadinessFirst(t *testing.T) {
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	c.DrainDelay = time.Second
	c.GRPC = config.GRPC{Listen: "127.0.0.1:0", Config: limitsFile(t)}
	p, err := Start(t.Context(), Input{Config: c}, discard())
	if err != nil {
		t.Fatal(err)
	}
	ready := p.api.url() + "/readyz"
	if got := status(t, p.api.url()+"/healthcheck"); got != 200 {
		t.Fatalf("healthcheck = %d, want 200", got)
	}
	if got := status(t, ready); got != 200 {
		t.Fatalf("readyz = %d, want 200", got)
	}
	stopped := make(chan struct{})
	go func() { p.Stop(); close(stopped) }()
	saw503 := false
	for end := time.Now().Add(patient); time.Now().Before(end) && !saw503; {
		saw503 = status(t, ready) == 503
	}
	if !saw503 {
		t.Error("readyz never failed before the listener closed")
	} else if got := status(t, p.api.url()+"/healthcheck"); got != 500 {
		t.Errorf("healthcheck = %d while the program stops, want 500 as of envoyproxy/ratelimit", got)
	}
	<-stopped
	p.Stop() // again: nothing
	if _, err := http.Get(ready); err == nil {
		t.Error("the listener is open after Stop")
	}
}

func TestStartUndoesItself(t *testing.T) {
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	first, err := Start(t.Context(), Input{Config: c}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	c2 := *c
	c2.Gateway.Listen = first.gateway.bound.String()
	c2.HTTP.Listen = "127.0.0.1:0"
	if _, err := Start(t.Context(), Input{Config: &c2}, discard()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Start = %v, want a port in use", err)
	}
}

// TestStoreGone checks that a store that does not answer: ready says so, each request
// goes by its policy, and the log names the policy once, not for every request.
func TestStoreGone(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	for _, test := range []struct {
		mode        policy.FailMode
		want, ready int
	}{{policy.Open, 404, 200}, {policy.Closed, 503, 503}, {policy.Local, 429, 200}} {
		pc := perClient("1/s")
		pc.OnStoreError = test.mode
		var log bytes.Buffer
		p := with(t, settings(t, up.URL, pc), gone{}, slog.New(slog.NewTextHandler(&log, nil)))
		var got int
		for range 4 {
			got = status(t, p.gateway.url())
		}
		if got != test.want {
			t.Errorf("%s: the last answer is %d, want %d", test.mode, got, test.want)
		}
		if got := status(t, p.api.url()+"/readyz"); got != test.ready {
			t.Errorf("%s: readyz = %d, want %d", test.mode, got, test.ready)
		}
		if got := status(t, p.api.url()+"/healthz"); got != 200 {
			t.Errorf("%s: healthz = %d, want 200", test.mode, got)
		}
		p.Stop()
		if n := strings.Count(log.String(), "no decision") + strings.Count(log.String(), "decided without the store"); n < 1 || n > 2 || !strings.Contains(log.String(), "policy=per-client") {
			t.Errorf("%s: the log names the policy %d times, want once:\n%s", test.mode, n, log.String())
		}
	}
}

// gone is a store that never answers.
type gone struct{}

func (gone) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, weir.ErrUnavailable
}

func (gone) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, weir.ErrUnavailable
}

// TestStopDrainsInterfacesTogether checks that a request at one interface that does not
// end takes no time from those at another.
func TestStopDrainsInterfacesTogether(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	arrived := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-forever }))
	c := settings(t, upstream.URL, perClient("10/s"))
	c.Drain = time.Second
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := storeFunc(func(r weir.Request) (weir.Decision, error) {
		if r.Key == "slow" {
			close(asked)
			<-answer
		}
		return weir.Decision{OK: true, Limit: r.Limit}, nil
	})
	p := with(t, c, slow, discard())
	go http.Get(p.gateway.url())
	<-arrived
	got := make(chan int, 1)
	go func() {
		res, err := http.Post(p.api.url()+"/v1/take", "", strings.NewReader(`{"key":"slow","limit":"1/s"}`))
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		res.Body.Close()
		got <- res.StatusCode
	}()
	<-asked
	stopped := make(chan struct{})
	go func() { p.Stop(); close(stopped) }()
	refused(t, p.api) // while the gateway still waits
	select {
	case <-stopped:
		t.Fatal("Stop did not wait")
	default:
	}
	close(answer)
	if got := <-got; got != 200 {
		t.Errorf("take = %d, want 200", got)
	}
	<-stopped
	upstream.CloseClientConnections()
}

type storeFunc func(weir.Request) (weir.Decision, error)

func (f storeFunc) Do(_ context.Context, r weir.Request) (weir.Decision, error) { return f(r) }

func (f storeFunc) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	for i := range rs {
		var err error
		if ds[i], err = f(rs[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}
