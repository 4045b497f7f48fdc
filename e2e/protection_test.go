package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// slowUpstreamEnv is the address on which a process of this test binary serves as an upstream.
const slowUpstreamEnv = "WEIR_TEST_SLOW_UPSTREAM"

// serveSlowUpstream serves requests until the process ends, each in the time that PUT /delay has
// set, 20 ms at first. GET /count returns how many it has received.
func serveSlowUpstream(addr string) error {
	var delay, count atomic.Int64
	delay.Store(int64(20 * time.Millisecond))
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /delay/{time}", func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.PathValue("time"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		delay.Store(int64(d))
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, count.Load()) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		<-time.After(time.Duration(delay.Load()))
	})
	return http.ListenAndServe(addr, mux)
}

// A slowUpstream is such a process.
type slowUpstream struct{ url string }

func startSlowUpstream(t *testing.T) *slowUpstream {
	t.Helper()
	addr := porttest.Address(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), slowUpstreamEnv+"="+addr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	u := &slowUpstream{"http://" + addr}
	awaitStatus(t, u.url+"/count", http.StatusOK)
	return u
}

// take sets the time that a request takes.
func (u *slowUpstream) take(t *testing.T, d time.Duration) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPut, u.url+"/delay/"+d.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	res.Body.Close()
}

// An arrivals sends requests at a constant rate, however long responses take.
type arrivals struct {
	client http.Client
	url    string
	class  string // the header X-Class
	wg     sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	sent     int
	ok       int
	inRow    int            // responses with 200 since the last other one
	rejected map[string]int // responses with 503, by protection
	strange  []string
}

func newArrivals(url, class string) *arrivals {
	return &arrivals{url: url, class: class, rejected: map[string]int{}, client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
}

// until sends 100 requests per second until done. It bounds only their number, because the machine
// may be busy.
func (a *arrivals) until(t *testing.T, what string, done func(*arrivals) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		a.mu.Lock()
		end := done(a)
		a.sent++
		a.mu.Unlock()
		a.wg.Go(a.request)
		if end {
			return
		}
		<-tick.C
	}
	a.wg.Wait()
	t.Fatalf("no %s within a minute of requests: %d sent, %d ok, rejected %v, %q", what, a.sent, a.ok, a.rejected, a.strange)
}

// request sends one request.
func (a *arrivals) request() {
	r, _ := http.NewRequest(http.MethodGet, a.url, nil)
	r.Header.Set("X-Class", a.class)
	res, err := a.client.Do(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && res.StatusCode == http.StatusOK {
		a.ok++
		a.inRow++
		return
	}
	a.inRow = 0
	var problem struct{ Protection string }
	if err == nil && res.StatusCode == http.StatusServiceUnavailable {
		err = json.Unmarshal(body, &problem)
	}
	switch {
	case err != nil:
		a.strange = append(a.strange, err.Error())
	case problem.Protection == "" || res.Header.Get("Weir-Protection") != problem.Protection || res.Header.Get("Retry-After") == "":
		a.strange = append(a.strange, fmt.Sprint(res.StatusCode, res.Header, string(body)))
	default:
		a.rejected[problem.Protection]++
	}
}

// TestProtectionsInGateway slows a real upstream down from 20 ms to 1 s, and lets it recover, behind
// each protection. The protection rejects meanwhile and admits afterwards, and every request has
// a response: of the upstream, which received it, or of the protection.
func TestProtectionsInGateway(t *testing.T) {
	binary := programtest.Weir(t)
	for name, setting := range map[string]string{
		"breaker":  "{ slow: 500ms, slow_rate: 60, of: 10, period: 5s, cooldown: 1s }",
		"bulkhead": "{ max: 10 }",
		"adaptive": "{ min: 5, max: 20, initial: 10 }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := startSlowUpstream(t)
			w := serve(t, binary, fmt.Sprintf("gateway:\n  routes:\n    - { path: /, upstream: %q, %s: %s }\n", up.url, name, setting))
			load := newArrivals(w.gateway, "")
			load.until(t, "100 responses", func(a *arrivals) bool { return a.ok >= 100 })
			up.take(t, time.Second)
			load.until(t, "rejections", func(a *arrivals) bool { return a.rejected[name] >= 20 })
			up.take(t, 20*time.Millisecond)
			load.until(t, "recovery", func(a *arrivals) bool { return a.inRow >= 50 })
			load.wg.Wait()

			rejected := load.rejected[name]
			if len(load.strange) > 0 || load.ok+rejected != load.sent {
				t.Errorf("%d requests: %d ok, %d rejected, others %q", load.sent, load.ok, rejected, load.strange)
			}
			if _, received, err := get(t.Context(), http.DefaultClient, up.url+"/count"); err != nil || received != fmt.Sprint(load.ok) {
				t.Errorf("the upstream received %s requests, %v, want the %d with a response", received, err, load.ok)
			}
			labels := fmt.Sprintf(`{mode="enforce",protection=%q,upstream=%q}`, name, up.url)
			awaitText(t, w.admin+"/metrics", fmt.Sprintf("weir_protection_rejected_total%s %d\n", labels, rejected))
			gauge := fmt.Sprintf("weir_protection_in_flight{protection=%q,route=\"/\",upstream=%q} 0\n", name, up.url)
			if name == "breaker" {
				gauge = fmt.Sprintf("weir_breaker_state{route=\"/\",state=\"closed\",upstream=%q} 1\n", up.url)
			}
			awaitText(t, w.admin+"/metrics", gauge)
		})
	}
}

// TestPrioritiesInGateway checks that critical requests are not rejected while batch requests are.
// Batch gets 10 of the 20 in flight. At most 8 critical ones are, also if a client gets its response
// before the request has ended.
func TestPrioritiesInGateway(t *testing.T) {
	t.Parallel()
	up := startSlowUpstream(t)
	up.take(t, time.Second)
	w := serve(t, programtest.Weir(t), strings.ReplaceAll(`
gateway:
  routes: [{ path: /, upstream: "UPSTREAM" }]
system:
  inflight: 20
  priorities:
    - { name: critical, match: { headers: { X-Class: critical } }, shed_at: 100 }
    - { name: batch, match: { headers: { X-Class: batch } }, shed_at: 50 }
`, "UPSTREAM", up.url))
	batch, critical := newArrivals(w.gateway, "batch"), newArrivals(w.gateway, "critical")
	end := make(chan struct{})
	for range 4 {
		critical.wg.Go(func() {
			for ended := false; !ended; {
				critical.request()
				select {
				case <-end:
					ended = true
				default:
				}
			}
		})
	}
	batch.until(t, "rejections", func(a *arrivals) bool { return a.rejected["inflight"] >= 100 })
	close(end)
	batch.wg.Wait()
	critical.wg.Wait()
	if critical.ok < 4 || len(critical.rejected) > 0 || len(critical.strange) > 0 {
		t.Errorf("critical: %d ok, rejected %v, others %q, want no rejection", critical.ok, critical.rejected, critical.strange)
	}
	if len(batch.strange) > 0 || batch.ok+batch.rejected["inflight"] != batch.sent {
		t.Errorf("batch: %d requests: %d ok, rejected %v, others %q", batch.sent, batch.ok, batch.rejected, batch.strange)
	}
}
