package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const settleFile = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM" }
policies:
  - name: model
    match: { paths: [/json, /stream, /part] }
    key: header:X-User
    limits: 100000/24h fixed_window
    cost: { estimate: 500, json: usage.total_tokens }
  - name: rows
    match: { paths: [/rows, /trailer] }
    key: header:X-User
    limits: 100000/24h fixed_window
    cost: { header: X-Rows }
  - name: login
    match: { paths: /login, methods: POST }
    key: header:X-User
    limits: 3/24h fixed_window
    count: failures
    failures: 401
  - name: sms
    match: /sms
    key: header:X-User
    limits: 2/24h fixed_window
    count: successes
  - name: slots
    match: /slow
    key: header:X-User
    limits: 5 concurrency lease 1m
`

// settleUpstream responds with the number of tokens in ?n=, in several forms and after ?pad=
// bytes, and counts the messages that it sent.
func settleUpstream(sent *atomic.Int64) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		pad, _ := strconv.Atoi(r.FormValue("pad"))
		w.Header().Set("Content-Type", "application/json")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(
			fmt.Sprintf(`{"picture":"%s","list":[%s0],"usage":{"total_tokens":%s}}`, strings.Repeat("x", pad), strings.Repeat("0,", pad), r.FormValue("n"))))
	}
	mux.HandleFunc("/json", answer)
	mux.HandleFunc("/part", answer)
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: {\"text\":\"%d\"}\n\n", i)
			http.NewResponseController(w).Flush()
		}
		fmt.Fprintf(w, "data: {\"usage\":{\"total_tokens\":%s}}\n\ndata: [DONE]\n\n", r.FormValue("n"))
	})
	mux.HandleFunc("/rows", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Rows", r.FormValue("n")) })
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Rows")
		io.WriteString(w, "rows")
		w.Header().Set("X-Rows", r.FormValue("n"))
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.FormValue("n"))
		w.WriteHeader(status)
	})
	mux.HandleFunc("/sms", func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		<-r.Context().Done() // the gateway cancels the request when its client disconnects
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

// TestSettle checks the cost of responses and which ones count, with two gateways that share a
// Redis.
func TestSettle(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var sent atomic.Int64
	upstream := httptest.NewServer(settleUpstream(&sent))
	defer upstream.Close()
	binary := programtest.Weir(t)
	text := strings.Replace(settleFile, "UPSTREAM", upstream.URL, 1)
	nodes := []*serving{
		serve(t, binary, text, "--store", "redis://"+redis.Addr),
		serve(t, binary, text, "--store", "redis://"+redis.Addr),
	}
	ask := func(ctx context.Context, c *http.Client, node int, method, path, user string, header ...string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, nodes[node%2].gateway+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", user)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := c.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		return res, err
	}
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	h2 := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	h2.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)

	t.Run("cost", func(t *testing.T) {
		for i, tc := range []struct {
			path   string
			client *http.Client
			method string
			header []string
			want   int64
		}{
			{"/json?n=3000", plain, "GET", nil, 3000},
			{"/json?n=3", plain, "POST", nil, 3},
			{"/json?n=3000", h2, "GET", nil, 3000},
			{"/json?n=3000", plain, "GET", []string{"Accept-Encoding", "gzip, br"}, 3000},
			{"/part?n=3000", plain, "GET", []string{"Range", "bytes=0-9"}, 3000},
			{"/json?n=3000&pad=2000000", plain, "GET", nil, 3000},
			{"/json?n=many", plain, "GET", nil, 500},
			{"/json?n=3000", plain, "HEAD", nil, 500},
			{"/stream?n=3000", plain, "GET", nil, 3000},
			{"/stream?n=3000", h2, "GET", nil, 3000},
			{"/rows?n=30", plain, "GET", nil, 30},
			{"/rows?n=-30", plain, "GET", nil, 1},
			{"/trailer?n=30", plain, "GET", nil, 30},
			{"/trailer?n=30", h2, "GET", nil, 30},
		} {
			user := "cost" + strconv.Itoa(i)
			res, err := ask(t.Context(), tc.client, 0, tc.method, tc.path, user, tc.header...)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s %s = %v, %v", tc.method, tc.path, res, err)
			}
			path, _, _ := strings.Cut(tc.path, "?")
			reserved := int64(500)
			if path == "/rows" || path == "/trailer" {
				reserved = 1
			}
			// A client may have the whole response before the charge is settled.
			cost := int64(-1)
			for range 100 {
				res, err = ask(t.Context(), plain, 1, "GET", path+"?n=0", user)
				if err != nil {
					t.Fatal(err)
				}
				left, err := strconv.ParseInt(res.Header.Get("X-Ratelimit-Remaining"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if cost = 100_000 - left - reserved; cost == tc.want {
					break
				}
			}
			if cost != tc.want {
				t.Errorf("%s %s %v costs %d, want %d", tc.method, tc.path, tc.header, cost, tc.want)
			}
		}
	})
	t.Run("failures", func(t *testing.T) {
		for i, tc := range []struct{ n, want int }{
			{200, 200}, {200, 200}, {200, 200}, {200, 200}, {404, 404}, {500, 500}, // none of them counts
			{401, 401}, {401, 401}, {200, 200}, {401, 401}, {200, 429}, {401, 429},
		} {
			// A client may have the whole response before its reservation is returned.
			var res *http.Response
			var err error
			for range 100 {
				res, err = ask(t.Context(), plain, i, "POST", "/login?n="+strconv.Itoa(tc.n), "failures")
				if err != nil || res.StatusCode == tc.want || res.StatusCode != http.StatusTooManyRequests {
					break
				}
			}
			if err != nil || res.StatusCode != tc.want {
				t.Errorf("attempt %d, which is answered with %d = %v, %v, want %d", i, tc.n, res, err, tc.want)
			}
		}
	})
	t.Run("disconnects", func(t *testing.T) {
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			before := sent.Load()
			go func() { // disconnect as soon as the message is sent
				defer cancel()
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for sent.Load() == before {
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
				}
			}()
			res, err := ask(ctx, plain, 0, "POST", "/sms", "hanging up")
			if i < 2 && err == nil || i >= 2 && (err != nil || res.StatusCode != http.StatusTooManyRequests) {
				t.Errorf("message %d = %v, %v, want two canceled ones and then 429", i, res, err)
			}
			cancel()
		}
		if sent.Load() != 2 {
			t.Errorf("%d messages were sent, want the 2 of the limit", sent.Load())
		}
	})
	t.Run("resets", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+10*i)*time.Microsecond)
				defer cancel()
				ask(ctx, h2, i, "GET", "/slow", "resets")
			})
		}
		all.Wait()
		// All slots are free long before their lease ends: that many requests run
		// concurrently, and none is denied.
		var denied atomic.Int64
		for range 20 {
			denied.Store(0)
			for i := range 5 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					defer cancel()
					if _, err := ask(ctx, plain, i, "GET", "/slow", "resets"); err == nil {
						denied.Add(1)
					}
				})
			}
			if all.Wait(); denied.Load() == 0 {
				return
			}
		}
		t.Errorf("%d of 5 slots are still held", denied.Load())
	})
}
