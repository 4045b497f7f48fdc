package httplimit_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

const (
	ample     = "1099511627776/8760h fixed_window" // enough for every cost, and not refilled
	unsettled = 3                                  // the cost that is known before
)

// spent returns the cost of a request with a given response.
func spent(t testing.TB, settle policy.Settle, handler http.HandlerFunc) int64 {
	t.Helper()
	store := fakestore.Memory(t)
	p := policy.Config{Name: "p", Limits: limits(ample), Cost: unsettled, Settle: settle}
	if w := get(serving(t, store, set(t, p), httplimit.Config{}, handler), "/", peer); w.Code != 200 {
		t.Fatalf("status %d, want 200", w.Code)
	}
	return charged(t, store, "p", ample)
}

func TestSettleByHeader(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   int64
	}{
		{nil, unsettled},
		{[]string{"7"}, 7},
		{[]string{"0"}, 0},
		{[]string{" 12 "}, 12},
		{[]string{"007"}, 7},
		{[]string{"1099511627776"}, 1 << 40},
		{[]string{"1099511627777"}, unsettled},
		{[]string{"9223372036854775808"}, unsettled},
		{[]string{"99999999999999999999999"}, unsettled},
		{[]string{"-1"}, unsettled},
		{[]string{"+1"}, unsettled},
		{[]string{"1.0"}, unsettled},
		{[]string{"1e3"}, unsettled},
		{[]string{"0x10"}, unsettled},
		{[]string{"1_000"}, unsettled},
		{[]string{"1, 2"}, unsettled},
		{[]string{"٣"}, unsettled},
		{[]string{""}, unsettled},
		{[]string{"5", "6"}, 6},
		{[]string{"5", "x"}, unsettled},
	} {
		got := spent(t, policy.Settle{Header: "x-cost"}, func(w http.ResponseWriter, _ *http.Request) { w.Header()["X-Cost"] = tc.values })
		if got != tc.want {
			t.Errorf("X-Cost %q costs %d, want %d", tc.values, got, tc.want)
		}
	}
}

func TestSettleByJSON(t *testing.T) {
	deep := strings.Repeat(`{"usage":`, 10_001) + "1" + strings.Repeat("}", 10_001)
	for _, tc := range []struct {
		name, kind, body string
		want             int64
	}{
		{"a number", "application/json", `{"id":"x","usage":{"prompt":[1,{}],"total_tokens":42},"z":null}`, 42},
		{"a charset", "application/json; charset=utf-8", `{"usage":{"total_tokens":42}}`, 42},
		{"a suffix", "application/vnd.x+json", `{"usage":{"total_tokens":42}}`, 42},
		{"upper case", "Application/JSON", ` { "usage" : { "total_tokens" : 42 } } ` + "\n", 42},
		{"an escape", "application/json", `{"us\u0061ge":{"total_tokens":42}}`, 42},
		{"none", "application/json", `{"usage":{"total_tokens":0}}`, 0},
		{"twice", "application/json", `{"usage":{"total_tokens":1,"total_tokens":2},"usage":{"total_tokens":3,"total_tokens":4}}`, 4},
		{"twice, the last without", "application/json", `{"usage":{"total_tokens":1},"usage":{}}`, unsettled},
		{"the largest", "application/json", `{"usage":{"total_tokens":1099511627776}}`, 1 << 40},
		{"above", "application/json", `{"usage":{"total_tokens":1099511627777}}`, unsettled},
		{"2^63", "application/json", `{"usage":{"total_tokens":9223372036854775808}}`, unsettled},
		{"2^64 and 5", "application/json", `{"usage":{"total_tokens":18446744073709551621}}`, unsettled},
		{"negative", "application/json", `{"usage":{"total_tokens":-1}}`, unsettled},
		{"a fraction", "application/json", `{"usage":{"total_tokens":42.5}}`, unsettled},
		{"an exponent", "application/json", `{"usage":{"total_tokens":4e1}}`, unsettled},
		{"a string of digits", "application/json", `{"usage":{"total_tokens":"42"}}`, 42},
		{"another string", "application/json", `{"usage":{"total_tokens":"42 tokens"}}`, unsettled},
		{"null", "application/json", `{"usage":{"total_tokens":null}}`, unsettled},
		{"a list", "application/json", `{"usage":[{"total_tokens":42}]}`, unsettled},
		{"another case", "application/json", `{"Usage":{"total_tokens":42}}`, unsettled},
		{"too deep", "application/json", `{"usage":{"total_tokens":{"x":42}}}`, unsettled},
		{"not so deep", "application/json", `{"usage":42}`, unsettled},
		{"deeper than can be read", "application/json", deep, unsettled},
		{"cut", "application/json", `{"usage":{"total_tokens":42}`, unsettled},
		{"more", "application/json", `{"usage":{"total_tokens":42}}{}`, unsettled},
		{"nothing", "application/json", ``, unsettled},
		{"no JSON", "application/json", `<html>`, unsettled},
		{"another type", "text/plain", `{"usage":{"total_tokens":42}}`, unsettled},
		{"no type", "", `{"usage":{"total_tokens":42}}`, unsettled},
		{"a bad type", "application/json; =", `{"usage":{"total_tokens":42}}`, unsettled},
		{"large", "application/json", `{"usage":{"total_tokens":42}` + strings.Repeat(" ", 1<<20-29) + `}`, 42},
		{"a long text", "application/json", `{"data":"` + strings.Repeat("x", 1<<22) + `","usage":{"total_tokens":42}}`, 42},
		{"long names", "application/json", `{"` + strings.Repeat("x", 1<<22) + `":1,"usage":{"` + strings.Repeat("y", 1<<21) + `":2,"total_tokens":42}}`, 42},
		{"a long list", "application/json", `{"data":[` + strings.Repeat(`{"usage":"]"},`, 1<<18) + `[]],"usage":{"total_tokens":42}}`, 42},
		{"numbers in a list", "application/json", `{"x":["]",{"usage":{"total_tokens":1}},"\""],"usage":{"total_tokens":42}}`, 42},
		{"a list alone", "application/json", `[{"usage":{"total_tokens":42}}]`, unsettled},
		{"a list that does not end", "application/json", `{"x":[[1],"usage":{"total_tokens":42}}`, unsettled},
		{"a list that does not begin", "application/json", `{"x":1],"usage":{"total_tokens":42}}`, unsettled},
		{"too large", "application/json", `{"usage":{"total_tokens":42}` + strings.Repeat(" ", 1<<20-28) + `}`, unsettled},
	} {
		for _, piece := range []int{1, 7, 1 << 22} { // bytes of a write
			if piece <= 7 && len(tc.body) > 1<<16 {
				continue
			}
			got := spent(t, policy.Settle{JSON: "usage.total_tokens"}, func(w http.ResponseWriter, _ *http.Request) {
				if tc.kind != "" {
					w.Header().Set("Content-Type", tc.kind)
				}
				writePieces(w, tc.body, piece)
			})
			if got != tc.want {
				t.Errorf("%s in pieces of %d costs %d, want %d", tc.name, piece, got, tc.want)
			}
		}
	}
}

func writePieces(w http.ResponseWriter, body string, piece int) {
	for len(body) > 0 {
		n := min(piece, len(body))
		_, _ = w.Write([]byte(body[:n]))
		body = body[n:]
	}
}

func TestSettleByStream(t *testing.T) {
	long := strings.Repeat(" ", 1<<20)
	for _, tc := range []struct {
		name, body string
		want       int64
	}{
		{"the last number", "data: {\"n\":1}\n\ndata: {\"n\":2}\n\ndata: {\"n\":null}\n\ndata: {}\n\ndata: [DONE]\n\n", 2},
		{"no space, and other ends", "data:{\"n\":1}\r\n\r\ndata:{\"n\":5}\r\rid: 1\n", 5},
		{"no end", "data: {\"n\":1}\n\ndata: {\"n\":6}", 6},
		{"other fields", ": {\"n\":1}\nevent: {\"n\":2}\nid: {\"n\":3}\ndatum: {\"n\":4}\n data: {\"n\":5}\nDATA: {\"n\":6}\n\n", unsettled},
		{"a line too long", "data: {\"n\":7}\n\ndata: {\"n\":8" + long + "}\n\n", 7},
		{"a long text", "data: {\"x\":\"" + long + "\",\"n\":8}\n\n", 8},
		{"a text that does not end", "data: {\"x\":\"" + long + "\n\ndata: {\"n\":[\ndata: {\"n\":9}\n\n", 9},
		{"after a line too long", "data: {" + long + "}\n\ndata: {\"n\":9}\n\n", 9},
		{"longer than is kept", strings.Repeat("data: {\"n\":1}\n\n", 100_000) + "data: {\"n\":10}\n\n", 10},
		{"nothing", "", unsettled},
	} {
		for _, piece := range []int{1, 5, 1 << 22} {
			if piece < 5 && len(tc.body) > 1<<16 {
				continue
			}
			got := spent(t, policy.Settle{JSON: "n"}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				writePieces(w, tc.body, piece)
			})
			if got != tc.want {
				t.Errorf("%s in pieces of %d costs %d, want %d", tc.name, piece, got, tc.want)
			}
		}
	}
}

// TestEncodedResponse checks that an encoded response has no readable cost, and that the handler
// is asked not to encode. The client's request stays unchanged.
func TestEncodedResponse(t *testing.T) {
	for encoding, want := range map[string]int64{"": 42, "identity": 42, "gzip": unsettled, "br": unsettled} {
		got := spent(t, policy.Settle{JSON: "n"}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if encoding != "" {
				w.Header().Set("Content-Encoding", encoding)
			}
			_, _ = w.Write([]byte(`{"n":42}`))
		})
		if got != want {
			t.Errorf("an answer encoded as %q costs %d, want %d", encoding, got, want)
		}
	}
	// A middleware in front that encodes sets the field before, as gzip of gin does; the
	// handler's own response is not encoded.
	store := fakestore.Memory(t)
	h := serving(t, store, set(t, policy.Config{Name: "p", Limits: limits(ample), Settle: policy.Settle{JSON: "n"}}), httplimit.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"n":42}`))
	})
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	from := httptest.NewRequest("GET", "/", nil)
	from.RemoteAddr = peer
	h.ServeHTTP(w, from)
	if got := charged(t, store, "p", ample); got != 42 || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("an answer that is encoded outside costs %d, want 42, and it says %q", got, w.Header().Get("Content-Encoding"))
	}
	for settle, want := range map[policy.Settle]string{{JSON: "n"}: "identity", {Header: "X-Cost"}: "gzip"} {
		accepts := ""
		h := serving(t, fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits(ample), Settle: settle}), httplimit.Config{},
			func(_ http.ResponseWriter, r *http.Request) { accepts = r.Header.Get("Accept-Encoding") })
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if accepts != want || r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("settled by %+v, the handler is asked for %q and the request for %q, want %q and gzip", settle, accepts, r.Header.Get("Accept-Encoding"), want)
		}
	}
}

// TestSettleWhatCounts checks that only a response that counts is charged its cost.
func TestSettleWhatCounts(t *testing.T) {
	for path, want := range map[string]int64{"/200": 50, "/404": 0} {
		store := fakestore.Memory(t)
		h := serving(t, store, set(t,
			policy.Config{Name: "p", Limits: limits("100/h", ample), Count: policy.CountSuccesses, Settle: policy.Settle{Header: "X-Cost"}},
			policy.Config{Name: "q", Limits: limits(ample), Settle: policy.Settle{JSON: "a.n"}},
			policy.Config{Name: "s", Mode: policy.Shadow, Limits: limits(ample), Settle: policy.Settle{JSON: "n"}},
		), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Cost", "50")
			w.Header().Set("Content-Type", "application/json")
			status(w, r)
			_, _ = w.Write([]byte(`{"n":60,"a":{"n":70}}`))
		})
		get(h, path, peer)
		for limit, want := range map[[2]string]int64{{"p", "100/h"}: want, {"p", ample}: want, {"q", ample}: 70, {"s", ample}: 60} {
			if got := charged(t, store, limit[0], limit[1]); got != want {
				t.Errorf("%s costs %d of %s, want %d", path, got, limit, want)
			}
		}
	}
}

// TestDebt checks that a cost above the remaining tokens is paid before the next request is
// admitted.
func TestDebt(t *testing.T) {
	store, advance := fakestore.Clocked(t)
	h := serving(t, store, set(t, policy.Config{Name: "p", Limits: limits("10/s"), Settle: policy.Settle{Header: "X-Cost"}}), httplimit.Config{},
		func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", "25") })
	for step, tc := range []struct {
		wait   time.Duration
		status int
	}{{0, 200}, {0, 429}, {1599 * time.Millisecond, 429}, {time.Millisecond, 200}} {
		advance(tc.wait)
		if w := get(h, "/", peer); w.Code != tc.status {
			t.Errorf("step %d: %d, want %d", step, w.Code, tc.status)
		}
	}
}

// TestLongRequest checks that a request that outlasts its reservation is charged at its end,
// if it counts.
func TestLongRequest(t *testing.T) {
	for path, want := range map[string]int64{"/200": 7, "/500": 0} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbled(t)
			defer store.Close()
			p := policy.Config{Name: "p", Limits: limits(ample), Count: policy.CountSuccesses, Settle: policy.Settle{Header: "X-Cost"}}
			h := serving(t, store, set(t, p), httplimit.Config{Options: enforce.Options{SettleTTL: time.Minute}}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Cost", "7")
				status(w, r)
				<-time.After(59 * time.Second)
				if got := charged(t, store, "p", ample); got != 1 {
					t.Errorf("while it is served %d is reserved, want 1", got)
				}
				<-time.After(2 * time.Second)
				if got := charged(t, store, "p", ample); got != 0 {
					t.Errorf("after its reservation %d is reserved, want 0", got)
				}
			})
			get(h, path, peer)
			if got := charged(t, store, "p", ample); got != want {
				t.Errorf("%s costs %d, want %d", path, got, want)
			}
		})
	}
}

// TestAtOnce checks that concurrent requests are settled each by its own response.
func TestAtOnce(t *testing.T) {
	store := fakestore.Memory(t)
	var h http.Handler
	h = serving(t, store, set(t, policy.Config{Name: "p", Limits: limits("1000000/8760h", ample), Settle: policy.Settle{JSON: "n"}}), httplimit.Config{},
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/outer" {
				for range 3 {
					get(h, "/inner", "203.0.113.8:1")
				}
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"n":%d}`, len(r.URL.Path)) // 6 each
		})
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { get(h, "/outer", peer) })
	}
	all.Wait()
	for _, limit := range []string{"1000000/8760h", ample} {
		if got := charged(t, store, "p", limit); got != 64*6 {
			t.Errorf("charged %d of %s, want %d", got, limit, 64*6)
		}
	}
}

// TestSettleBySum checks sums of numbers, of which each has its last value in a stream of events.
func TestSettleBySum(t *testing.T) {
	anthropic := "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":40,\"output_tokens\":1}}}\n\n" +
		"event: message_delta\ndata: {\"usage\":{\"output_tokens\":50}}\n\n"
	for _, tc := range []struct {
		name, json, kind, body string
		want                   int64
	}{
		{"a sum", "usage.input_tokens + usage.output_tokens", "application/json", `{"usage":{"input_tokens":40,"output_tokens":50}}`, 90},
		{"without spaces", "a+b", "application/json", `{"a":1,"b":"2"}`, 3},
		{"one number twice", "a + a", "application/json", `{"a":4}`, 8},
		{"0 is a number", "a + b", "application/json", `{"a":4,"b":0}`, 4},
		{"several events", "message.usage.input_tokens + usage.output_tokens", "text/event-stream", anthropic, 90},
		{"a number is missing", "a + b", "application/json", `{"a":1}`, unsettled},
		{"a large number, and one is missing", "a + b", "application/json", `{"b":70}`, 70},
		{"one is negative", "a + b", "application/json", `{"a":70,"b":-70}`, 70},
	} {
		got := spent(t, policy.Settle{JSON: tc.json}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tc.kind)
			writePieces(w, tc.body, 7)
		})
		if got != tc.want {
			t.Errorf("%s: %s costs %d, want %d", tc.name, tc.json, got, tc.want)
		}
	}
}

// A double costs two times n of a response, if it has the header and the status that are expected.
type double struct{}

func (*double) Paths() []string { return []string{"n", "list", "long"} }
func (*double) String() string  { return "2 * n" }
func (*double) Cost(a policy.Attributes, r policy.ResponseValues) (int64, error) {
	text, ok := r.Body("n")
	_, list := r.Body("list")
	_, long := r.Body("long")
	n, err := strconv.ParseInt(string(text), 10, 64)
	if !ok || err != nil || list || long || r.Status() != 200 || r.Header("X-A")[0] != "b" || a.Path() != "/" {
		return 70, fmt.Errorf("%w: %s, %d, %s", budget.ErrNoUsage, text, r.Status(), a.Path())
	}
	return 2 * n, nil
}

func TestSettleByExpression(t *testing.T) {
	for body, want := range map[string]int64{
		`{"n":40,"list":[1],"long":"` + strings.Repeat("x", 300) + `"}`: 80, `{"n":0}`: 0, `{}`: 70, `{"n":40,"list":3}`: 70,
	} {
		got := spent(t, policy.Settle{Expr: &double{}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-A", "b")
			writePieces(w, body, 7)
		})
		if got != want {
			t.Errorf("%.30s costs %d, want %d", body, got, want)
		}
	}
}

// TestSettleByCompressedResponse checks the cost in a response that is compressed although the
// request accepts no encoding.
func TestSettleByCompressedResponse(t *testing.T) {
	for _, encoding := range []string{"gzip", "deflate"} {
		var b bytes.Buffer
		var z io.WriteCloser = gzip.NewWriter(&b)
		if encoding == "deflate" {
			z = zlib.NewWriter(&b)
		}
		_, _ = z.Write([]byte(`{"n":42}`))
		_ = z.Close()
		got := spent(t, policy.Settle{JSON: "n"}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", encoding)
			writePieces(w, b.String(), 5)
		})
		if got != 42 {
			t.Errorf("%s costs %d, want 42", encoding, got)
		}
	}
}
