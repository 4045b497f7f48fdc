package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// listening returns the URL of a real server of h behind the policy c, and a function that waits
// until all requests are settled and returns their charges.
func listening(t *testing.T, http2 bool, c policy.Config, h http.HandlerFunc) (*httptest.Server, func() int64) {
	t.Helper()
	store := fakestore.Memory(t)
	c.Name, c.Key, c.Limits = "p", []policy.KeyPart{{Source: policy.Constant, Name: "k"}}, limits(ample)
	limited := serving(t, store, set(t, c), httplimit.Config{}, h)
	var begun sync.WaitGroup
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		defer begun.Done()
		limited.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = http2
	if http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv, func() int64 {
		begun.Wait()
		d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "p|1:k", Limit: fakestore.PolicyLimit(t, ample), N: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d.Limit.Capacity() - d.Remaining
	}
}

func read(t *testing.T, srv *httptest.Server, method string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

var (
	byStatus = policy.Config{Count: policy.CountFailures}
	byJSON   = policy.Config{Settle: policy.Settle{JSON: "n"}}
	byHeader = policy.Config{Settle: policy.Settle{Header: "X-Cost"}}
)

// TestWrappedFlush checks that what is flushed arrives before the handler ends, over HTTP/1.1
// and HTTP/2, by either way to flush.
func TestWrappedFlush(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, controlled := range []bool{false, true} {
			first := make(chan struct{})
			srv, cost := listening(t, http2, byJSON, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"n\":4}\n\n")
				if !controlled {
					w.(http.Flusher).Flush()
				} else if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("Flush: %v", err)
				}
				<-first
				_, _ = io.WriteString(w, "data: {\"n\":5}\n\n")
			})
			res, err := srv.Client().Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(res.Body).ReadString('\n')
			if err != nil || line != "data: {\"n\":4}\n" || (res.ProtoMajor == 2) != http2 {
				t.Errorf("over %s: %q, %v, want the first event before the end", res.Proto, line, err)
			}
			close(first)
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if got := cost(); got != 5 {
				t.Errorf("over %s: costs %d, want 5", res.Proto, got)
			}
		}
	}
}

// TestWrappedHijack checks that a hijacked connection is a success.
func TestWrappedHijack(t *testing.T) {
	for count, want := range map[policy.Count]int64{policy.CountFailures: 0, policy.CountSuccesses: 1} {
		srv, cost := listening(t, false, policy.Config{Count: count, Failures: [][2]int{{200, 599}}}, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\nraw")
			_ = rw.Flush()
		})
		r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "test")
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(res.Body).ReadString('\n')
		_ = res.Body.Close()
		if got := cost(); res.StatusCode != 101 || line != "raw" || got != want {
			t.Errorf("hijacked answer = %d %q and costs %d, want 101 raw and %d", res.StatusCode, line, got, want)
		}
	}
	srv, _ := listening(t, true, byStatus, func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack over HTTP/2 = %v, want http.ErrNotSupported", err)
		}
	})
	read(t, srv, "GET")
}

// TestWrappedDeadline checks that a ResponseController reaches the server's writer.
func TestWrappedDeadline(t *testing.T) {
	srv, _ := listening(t, false, byStatus, func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		for name, err := range map[string]error{
			"SetReadDeadline":  c.SetReadDeadline(time.Now().Add(time.Minute)),
			"SetWriteDeadline": c.SetWriteDeadline(time.Now().Add(time.Minute)),
			"EnableFullDuplex": c.EnableFullDuplex(),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	read(t, srv, "GET")
}

// noted is a writer that is an io.ReaderFrom and records its use.
type noted struct {
	*httptest.ResponseRecorder
	reads int
}

func (w *noted) ReadFrom(r io.Reader) (int64, error) {
	w.reads++
	return w.Body.ReadFrom(r)
}

// TestWrappedReadFrom checks that the server copies a body that no policy reads.
func TestWrappedReadFrom(t *testing.T) {
	for _, tc := range []struct {
		c     policy.Config
		kind  string
		reads int
		cost  int64
	}{
		{byStatus, "application/json", 1, 0},
		{byJSON, "text/plain", 1, 1},
		{byJSON, "application/json", 0, 6},
	} {
		store := fakestore.Memory(t)
		tc.c.Name, tc.c.Limits = "p", limits(ample)
		h := serving(t, store, set(t, tc.c), httplimit.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tc.kind)
			if n, err := io.Copy(w, iotest.OneByteReader(strings.NewReader(`{"n":6}`))); n != 7 || err != nil {
				t.Errorf("Copy = %d, %v, want 7", n, err)
			}
		})
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		w := &noted{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if got := charged(t, store, "p", ample); w.reads != tc.reads || got != tc.cost || w.Body.String() != `{"n":6}` {
			t.Errorf("%s settled by %+v: read %d times, costs %d, body %q, want %d, %d and all", tc.kind, tc.c.Settle, w.reads, got, w.Body, tc.reads, tc.cost)
		}
	}
}

// TestWrappedOverTheWire checks that a response is the same with and without a policy that
// counts by it.
func TestWrappedOverTheWire(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), 10_000)
	for _, http2 := range []bool{false, true} {
		for name, c := range map[string]policy.Config{"not": {}, "by header": byHeader, "by status": byStatus, "by JSON": byJSON} {
			srv, _ := listening(t, http2, c, func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "file.txt", time.Time{}, bytes.NewReader(file))
			})
			for _, method := range []string{"GET", "HEAD"} {
				res, body := read(t, srv, method)
				if res.StatusCode != 200 || res.ContentLength != int64(len(file)) || method == "GET" && body != string(file) ||
					res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
					t.Errorf("watched %s, %s over %s = %d, %d bytes of %s, want the file", name, method, res.Proto, res.StatusCode, len(body), res.Header.Get("Content-Type"))
				}
			}
		}
	}
}

// TestSettleByTrailer checks trailers, announced and not, over HTTP/1.1 and HTTP/2.
func TestSettleByTrailer(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for name, want := range map[string]int64{"X-Cost": 8, http.TrailerPrefix + "X-Cost": 8} {
			srv, cost := listening(t, http2, byHeader, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "X-Cost")
				_, _ = io.WriteString(w, "body")
				_ = http.NewResponseController(w).Flush()
				w.Header().Set(name, "8")
			})
			res, _ := read(t, srv, "GET")
			if got := cost(); got != want || res.Trailer.Get("X-Cost") != "8" {
				t.Errorf("%s over %s: costs %d, and the client gets %q, want %d and 8", name, res.Proto, got, res.Trailer.Get("X-Cost"), want)
			}
		}
	}
}

// quiet discards the log of servers whose handlers fail on purpose.
var quiet = log.New(io.Discard, "", 0)

// TestFirstStatusCounts checks that the first final status counts.
func TestFirstStatusCounts(t *testing.T) {
	for _, tc := range []struct {
		codes []int
		want  int64
	}{{[]int{103, 500}, 1}, {[]int{103, 100, 200}, 0}, {[]int{200, 500}, 0}, {[]int{500, 200}, 1}, {[]int{103}, 0}, {[]int{0, 500}, 0}} {
		srv, cost := listening(t, false, byStatus, func(w http.ResponseWriter, _ *http.Request) {
			for _, code := range tc.codes {
				if code == 0 {
					w.(http.Flusher).Flush()
					continue
				}
				w.WriteHeader(code)
			}
			_, _ = io.WriteString(w, "body")
		})
		srv.Config.ErrorLog = quiet
		_, body := read(t, srv, "GET")
		if got := cost(); got != tc.want || body != "body" {
			t.Errorf("statuses %v cost %d with body %q, want %d", tc.codes, got, body, tc.want)
		}
	}
}

// TestCanceledRequestIsSettled checks that a client that disconnects before the end is charged by
// the response, over HTTP/1.1 and HTTP/2.
func TestCanceledRequestIsSettled(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		c := policy.Config{Count: policy.CountSuccesses, Settle: policy.Settle{JSON: "n"}}
		srv, cost := listening(t, http2, c, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"n\":4}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			_, _ = io.WriteString(w, "data: {\"n\":9}\n\n")
			panic(http.ErrAbortHandler)
		})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(res.Body).ReadString('\n')
		cancel()
		_ = res.Body.Close()
		if got := cost(); got != 9 {
			t.Errorf("over %s: costs %d, want 9", res.Proto, got)
		}
	}
}

// TestPanicOverTheWire checks that a panic ends the connection, and counts as a failure.
func TestPanicOverTheWire(t *testing.T) {
	srv, cost := listening(t, false, byStatus, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := srv.Client().Do(r); err == nil {
		t.Errorf("answer = %d, want none", res.StatusCode)
	}
	if got := cost(); got != 1 {
		t.Errorf("costs %d, want 1", got)
	}
}

// TestUnwrappedWriter checks that a policy that is settled by a header alone, or holds a slot,
// does not wrap the response.
func TestUnwrappedWriter(t *testing.T) {
	for name, c := range map[string]policy.Config{
		"header": {Name: "p", Limits: limits("9/h"), Settle: policy.Settle{Header: "X-Cost"}},
		"slot":   {Name: "p", Limits: limits("9 concurrency")},
		"all":    {Name: "p", Limits: limits("9/h"), Count: policy.CountAll},
	} {
		var got http.ResponseWriter
		h := serving(t, fakestore.Memory(t), set(t, c), httplimit.Config{}, func(w http.ResponseWriter, _ *http.Request) { got = w })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if got != w {
			t.Errorf("%s: the handler got %T, want the writer that was given", name, got)
		}
	}
}
