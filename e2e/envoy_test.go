package e2e_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// These tests call the gRPC listener for Envoy with plain HTTP/2 frames, so that the client
// shares no code with the server.

// startEnvoy runs weir with a directory of limits and returns the addresses of its gRPC and
// HTTP listeners.
func startEnvoy(t *testing.T, binary, store, dir string, more ...string) (grpc, api string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("store: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	grpc, api = porttest.Address(t), porttest.Address(t)
	args := []string{
		"serve", file, "--store", store, "--listen-gateway", "off", "--listen-http", api, "--listen-grpc", grpc,
		"--deadline", "10s", "--grpc-config", dir,
	}
	startProcess(t, binary, append(args, more...)...)
	awaitStatus(t, "http://"+api+"/readyz", 200)
	return grpc, api
}

// field encodes a protocol buffer field that holds bytes.
func field(number byte, value []byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(value))), value...)
}

// rateLimitRequest encodes a RateLimitRequest with descriptors of one entry each, "key=value".
func rateLimitRequest(domain string, hits uint64, entries ...string) []byte {
	r := field(1, []byte(domain))
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		r = append(r, field(2, field(1, append(field(1, []byte(key)), field(2, []byte(value))...)))...)
	}
	return binary.AppendUvarint(append(r, 3<<3), hits)
}

// shouldRateLimit calls the gRPC listener and returns the overall code: 1 is OK, 2 is over a
// limit.
func shouldRateLimit(client *http.Client, grpc string, request []byte) (code byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+grpc+"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", bytes.NewReader(message))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	got, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return 0, err
	}
	status := got.Trailer.Get("Grpc-Status") + got.Header.Get("Grpc-Status")
	if status != "0" {
		return 0, fmt.Errorf("grpc-status %s: %s%s", status, got.Trailer.Get("Grpc-Message"), got.Header.Get("Grpc-Message"))
	}
	if len(body) < 7 || body[5] != 1<<3 {
		return 0, errors.New("an answer without an overall code")
	}
	return body[6], nil
}

// h2c returns a client for HTTP/2 without TLS.
func h2c(t *testing.T) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func postJSON(api, body string) (int, string, error) {
	r, err := http.Post("http://"+api+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, strings.ReplaceAll(string(text), " ", ""), err
}

// TestEnvoyExactly sends requests from 64 callers to two weir processes that share a Redis,
// half over gRPC and half over /json. Exactly the limit is admitted.
func TestEnvoyExactly(t *testing.T) {
	binary, store := programtest.Weir(t), "redis://"+redistest.Start(t).Addr
	var doors, apis [2]string
	for i := range doors {
		doors[i], apis[i] = startEnvoy(t, binary, store, "testdata/envoy")
	}
	client := h2c(t)
	var admitted [2]atomic.Int64
	var denied atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		user := i % 2
		name := fmt.Sprint("u", user)
		wg.Go(func() {
			for range 5 {
				var ok bool
				var err error
				if i%4 < 2 {
					var code byte
					code, err = shouldRateLimit(client, doors[i/4%2], rateLimitRequest("site", 1, "user="+name, "site=all"))
					ok = code == 1
				} else {
					var status int
					status, _, err = postJSON(apis[i/4%2], `{"domain": "site", "descriptors": [{"entries": [{"key": "user", "value": "`+name+
						`"}]}, {"entries": [{"key": "site", "value": "all"}]}]}`)
					ok = status == 200
				}
				switch {
				case err != nil:
					t.Error(err)
				case ok:
					admitted[user].Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	a, b, d := admitted[0].Load(), admitted[1].Load(), denied.Load()
	if a+b != 150 || a > 100 || b > 100 || d != 320-150 {
		t.Errorf("%d and %d admitted, %d denied, want 150 in all and at most 100 of each", a, b, d)
	}
	// Denied requests charged nothing: each user still has the tokens that it did not get.
	for i, n := range []int64{a, b} {
		request := rateLimitRequest("site", uint64(100-n), fmt.Sprint("user=u", i))
		if n == 100 {
			request = rateLimitRequest("site", 1, fmt.Sprint("user=u", i))
		}
		code, err := shouldRateLimit(client, doors[0], request)
		if want := byte(1); err != nil || n < 100 && code != want || n == 100 && code != 2 {
			t.Errorf("user %d after %d admitted: code %d, %v", i, n, code, err)
		}
	}
}

// TestEnvoyStores sends requests with every verb of the protocol, over memory and over Redis.
func TestEnvoyStores(t *testing.T) {
	t.Parallel()
	binary := programtest.Weir(t)
	for _, store := range []string{"memory", "redis://" + redistest.Start(t).Addr} {
		t.Run(name(store), func(t *testing.T) {
			grpc, api := startEnvoy(t, binary, store, "testdata/envoy")
			ask := func(want int, part, body string) {
				t.Helper()
				status, text, err := postJSON(api, `{"domain": "site", "descriptors": [`+body+`]}`)
				if err != nil || status != want || !strings.Contains(text, part) {
					t.Errorf("%s: status %d, %v, want %d with %s in\n%s", body, status, err, want, part, text)
				}
			}
			const none = `"unit":"YEAR"},"durationUntilReset"` // 0 is not written
			ask(200, `"limitRemaining":60`, `{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "40"}`)
			ask(200, `"limitRemaining":60`, `{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "0"}`)
			ask(200, `"limitRemaining":90`, `{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "30", "isNegativeHits": true}`)
			ask(429, `"code":"OVER_LIMIT"`, `{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "91"}`)
			ask(200, none, `{"entries": [{"key": "bucket", "value": "a"}], "hitsAddend": "100"}`)
			ask(429, `"limitRemaining":1`, `{"entries": [{"key": "user", "value": "b"}], "hitsAddend": "99"}, {"entries": [{"key": "user", "value": "b"}], "hitsAddend": "2"}`)
			// A limit that comes with the request and changes.
			own := func(limit int, hits int) string {
				return fmt.Sprintf(`{"entries": [{"key": "user", "value": "c"}], "limit": {"requestsPerUnit": %d, "unit": "YEAR"}, "hitsAddend": "%d"}`, limit, hits)
			}
			ask(200, `"limitRemaining":2`, own(5, 3))
			ask(200, `"limitRemaining":3`, own(7, 1))
			ask(429, `"code":"OVER_LIMIT"`, own(4, 1))
			ask(200, none, own(7, 3))
			for _, test := range []struct {
				request []byte
				code    byte
				err     string
			}{
				{rateLimitRequest("site", 0, "user=d"), 1, ""},
				{rateLimitRequest("site", 99, "user=d"), 1, ""},
				{rateLimitRequest("site", 1, "user=d"), 2, ""},
				{rateLimitRequest("other", 1, "user=d"), 1, ""},
				{rateLimitRequest("", 1, "user=d"), 0, "grpc-status 3"},
				{rateLimitRequest("site", 1), 0, "grpc-status 3"},
				{[]byte{0xff}, 0, "grpc-status 13"},
				{rateLimitRequest("site", 1, strings.Split(strings.Repeat("user=d ", 10_000), " ")...), 0, "grpc-status 3"},
				{rateLimitRequest("site", 1, "user="+strings.Repeat("x", 1<<20)), 0, "grpc-status 8"},
			} {
				code, err := shouldRateLimit(h2c(t), grpc, test.request)
				if code != test.code || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("%.60q: code %d, %v, want %d, %s", test.request, code, err, test.code, test.err)
				}
			}
		})
	}
}

// TestEnvoyReload rewrites the directory while callers send requests. No request fails and
// none is without a limit. A file with an error changes nothing.
func TestEnvoyReload(t *testing.T) {
	dir := t.TempDir()
	limits := filepath.Join(dir, "site.yaml")
	write := func(n int, more string) {
		text := fmt.Sprintf("domain: site\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: %d}\n%s", n, more)
		next := filepath.Join(t.TempDir(), "next")
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, limits); err != nil {
			t.Fatal(err)
		}
	}
	write(100, "")
	grpc, api := startEnvoy(t, programtest.Weir(t), "memory", dir)
	client := h2c(t)
	stop := make(chan struct{})
	var asked, admitted atomic.Int64
	var wg sync.WaitGroup
	const callers, changes = 4, 6
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				code, err := shouldRateLimit(client, grpc, rateLimitRequest("site", 1, "user=a"))
				if err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if code == 1 {
					admitted.Add(1)
				}
			}
		})
	}
	// await sends requests of another user until the limit is n.
	await := func(n int) {
		t.Helper()
		want := fmt.Sprintf(`"requestsPerUnit":%d,`, n)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		late := time.After(patient)
		for {
			_, text, err := postJSON(api, `{"domain": "site", "descriptors": [{"entries": [{"key": "user", "value": "b"}], "hitsAddend": "0"}]}`)
			if err == nil && strings.Contains(text, want) {
				return
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("the limit did not become %d: %s, %v", n, text, err)
			}
		}
	}
	await(100)
	for n := 110; n <= 150; n += 10 {
		write(n, "")
		await(n)
	}
	write(1_000_000, "  - key: [broken")
	write(160, "")
	await(160)
	close(stop)
	wg.Wait()
	// At each change, a request in flight may still be decided by the limit before it.
	most := int64(160 + callers*changes)
	if a := admitted.Load(); a > most || a < 100 {
		t.Errorf("%d of %d admitted, want at most %d", a, asked.Load(), most)
	}
	for range 200 {
		code, err := shouldRateLimit(client, grpc, rateLimitRequest("site", 1, "user=a"))
		if err != nil {
			t.Fatal(err)
		}
		if code == 1 {
			admitted.Add(1)
		}
	}
	if a := admitted.Load(); a < 160 || a > most {
		t.Errorf("%d admitted in all, want 160 to %d: the limit grew from 100, and what was used stayed used", a, most)
	}
}
