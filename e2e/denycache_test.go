package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
	"github.com/floodweir/weir/redisstore"
)

// TestDenyCache checks that weir serve repeats a denial of Redis with the same response and
// without a call, and that a reset ends that at once.
func TestDenyCache(t *testing.T) {
	t.Parallel()
	const client, denials = "203.0.113.7", 300
	o := operate(t, programtest.Weir(t), nil, "--store", "redis://"+redistest.Start(t).Addr)
	value := func(name string) float64 {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(o.scrape(t))
		if m == nil {
			return 0
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const calls = `weir_store_duration_seconds_count{op="take"}`
	ask := func(want int) (response string) {
		t.Helper()
		res := o.ask(t, client)
		if res.StatusCode != want {
			t.Fatalf("GET = %s, want %d", res.Status, want)
		}
		body, _ := io.ReadAll(res.Body)
		for _, name := range []string{"Date", "Retry-After", "X-Ratelimit-Reset", "Ratelimit", "X-Request-Id", "Traceparent"} {
			if name == "Ratelimit" { // its time left decreases
				res.Header.Set(name, regexp.MustCompile(`t=\d+`).ReplaceAllString(res.Header.Get(name), "t"))
				continue
			}
			res.Header.Del(name)
		}
		return fmt.Sprint(res.Header, string(body))
	}
	ask(200)
	ask(200)
	first, before, start := ask(429), value(calls), time.Now()
	for range denials {
		if got := ask(429); got != first {
			t.Fatalf("a repeated denial is\n%s\nwant\n%s", got, first)
		}
	}
	// One call in each second finds out whether another process has returned tokens.
	most := 1 + time.Since(start).Seconds()
	if n := value(calls) - before; n > most {
		t.Errorf("%v calls of Redis for %d denials, want at most %v", n, denials, most)
	}
	if n := value("weir_denials_repeated_total"); n < denials-most {
		t.Errorf("weir_denials_repeated_total = %v, want at least %v", n, denials-most)
	}
	if n := value(`weir_decisions_total{interface="gateway",outcome="denied",policy="per-client"}`); n != denials+1 {
		t.Errorf("%v denials counted, want %d", n, denials+1)
	}
	res, err := http.Post(o.api+"/v1/reset", "application/json", strings.NewReader(`{"policy":"per-client","key":["`+client+`"]}`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	res.Body.Close()
	ask(200)
}

// TestRedisHotKey has 64 clients offer up to 64,000 requests per second for a key, while another
// process keeps each core busy. The key gets no more than its limit, and Redis gets few of the
// requests: one of each client before the first denial, and about two for each admission.
func TestRedisHotKey(t *testing.T) {
	t.Parallel()
	keepBusy(t)
	server := redistest.Start(t)
	for _, rate := range []int64{10, 100} {
		const clients = 64
		store := newRedisStore(t, openConn(t, "rueidis", "redis://"+server.Addr), redisstore.Config{})
		cache, err := denycache.New(store, denycache.Config{})
		if err != nil {
			t.Fatal(err)
		}
		limited := weir.Request{Key: "hot", Limit: weir.MustLimit(fmt.Sprint(rate, "/s burst 1")), N: 1}
		var asked, admitted atomic.Int64
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				pace := time.NewTicker(time.Millisecond)
				defer pace.Stop()
				for ctx.Err() == nil {
					<-pace.C
					d, err := cache.Do(context.Background(), limited)
					if err != nil {
						t.Error(err)
						return
					}
					asked.Add(1)
					if d.OK {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		due := rate*time.Since(start).Milliseconds()/1000 + 1
		calls, n := asked.Load()-cache.Stats().Repeated-clients, admitted.Load()
		t.Logf("%d/s: %d requests, %d admitted of %d, %d calls after the first %d", rate, asked.Load(), n, due, calls, clients)
		// A token that no client asks for in time is lost: how many depends on the machine.
		if n > due || n < 2 {
			t.Errorf("%d/s: %d admitted, want 2 to %d", rate, n, due)
		}
		// A probe that a busy machine delays for long costs one call of each client.
		// denycache.TestHotKey has the bound in virtual time.
		if most := 4*n + 3*clients; calls > most {
			t.Errorf("%d/s: %d calls for %d admissions, want at most %d", rate, calls, n, most)
		}
	}
}

// TestDenyCacheInterfaces checks that every interface repeats the denials of Redis. A key over its
// limit costs at most two calls for each admission, and one in each second. That one finds out
// whether another process has returned tokens.
func TestDenyCacheInterfaces(t *testing.T) {
	t.Parallel()
	const admitted, requests = 5, 60
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	limits := t.TempDir()
	descriptors := "domain: bench\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 5 } }\n  - { key: site, rate_limit: { unit: year, requests_per_unit: 9 } }\n"
	if err := os.WriteFile(filepath.Join(limits, "bench.yaml"), []byte(descriptors), 0o600); err != nil {
		t.Fatal(err)
	}
	grpc, resp := porttest.Address(t), porttest.Address(t)
	s := serve(t, programtest.Weir(t), strings.ReplaceAll(`
gateway: { routes: [{ path: /, upstream: UPSTREAM }] }
policies:
  - { name: one, match: /one, key: [client.ip], limits: [5/24h] }
  - { name: two, match: /two, key: [client.ip], limits: [5/24h, 100/7d] }
  - { name: auth, match: /auth, key: [client.ip], limits: [5/24h] }
`, "UPSTREAM", upstream.URL), "--store", "redis://"+redistest.Start(t).Addr, "--listen-grpc", grpc, "--grpc-config", limits, "--listen-resp", resp)
	calls := func() (sum float64) {
		t.Helper()
		res := fetch(t, s.admin+"/metrics")
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^weir_store_duration_seconds_count\{op="(?:take|batch)"\} (\S+)$`).FindAllStringSubmatch(string(body), -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
		return sum
	}
	client := h2c(t)
	rls := func(entries ...string) func() (bool, error) {
		return func() (bool, error) {
			code, err := shouldRateLimit(client, grpc, rateLimitRequest("bench", 1, entries...))
			return code == 1, err
		}
	}
	get := func(url string, headers ...string) func() (bool, error) {
		return func() (bool, error) { return fetch(t, url, headers...).StatusCode == http.StatusOK, nil }
	}
	for name, ask := range map[string]func() (bool, error){
		"gateway":             get(s.gateway + "/one"),
		"gateway, two limits": get(s.gateway + "/two"),
		"forward auth":        get(s.api+"/v1/auth", "X-Forwarded-Uri", "/auth", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "a", "X-Forwarded-For", "192.0.2.1"),
		"HTTP": func() (bool, error) {
			return strings.Contains(postKey(t, s.api+"/v1/take", `{"key":"http","limit":"5/24h"}`, 0), `"ok":true`), nil
		},
		"RESP": func() (bool, error) {
			return strings.HasPrefix(redisCLI(t, resp, "", "CL.THROTTLE", "resp", "4", "5", "86400"), "0\n"), nil
		},
		"RLS":             rls("user=a"),
		"RLS, two limits": rls("user=b", "site=b"),
	} {
		start, before, ok := time.Now(), calls(), 0
		for range requests {
			admits, err := ask()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if admits {
				ok++
			}
		}
		n, most := calls()-before, 2*admitted+time.Since(start).Seconds()
		t.Logf("%s: %v calls of Redis for %d requests, %d admitted", name, n, requests, ok)
		if ok != admitted || n > most || n < admitted {
			t.Errorf("%s: %d admitted and %v calls of Redis, want %d and at most %.0f", name, ok, n, admitted, most)
		}
	}
}
