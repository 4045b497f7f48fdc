package lab_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/lab"
)

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/lab", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := lab.Handler(nil)
		w := post(h, `{"design":"naive","buyers":80,"stock":20,"pause_ms":150}`)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"design", "buyers", "stock", "sold", "oversold", "undersold", "took_ms", "per_second"} {
			if _, ok := got[name]; !ok {
				t.Errorf("the answer has no %s: %s", name, w.Body)
			}
		}
		if got["oversold"].(float64) < 1 {
			t.Errorf("the naive lock did not oversell: %s", w.Body)
		}
	})
}

func TestHandlerRefuses(t *testing.T) {
	h := lab.Handler(nil)
	for _, c := range []struct {
		body   string
		status int
		words  string
	}{
		{``, 400, "body"},
		{`null`, 400, "design"},
		{`[]`, 400, "body"},
		{`{"design":"naive","buyers":501,"stock":1}`, 400, "buyers 501"},
		{`{"design":"naive","buyers":-1,"stock":1}`, 400, "buyers -1"},
		{`{"design":"naive","buyers":1,"stock":501}`, 400, "stock 501"},
		{`{"design":"naive","buyers":1,"stock":1,"pause_ms":2001}`, 400, "pause_ms 2001"},
		{`{"design":"naive","buyers":1,"stock":1,"pause_ms":-1}`, 400, "pause_ms -1"},
		{`{"design":"naive","buyers":1,"stock":1,"pause_ms":9223372036854775807}`, 400, "pause_ms"},
		{`{"design":"naive","buyers":1e99,"stock":1}`, 400, "buyers"},
		{`{"design":"Naive","buyers":1,"stock":1}`, 400, "Naive"},
		{`{"design":"naive","buyers":1,"stock":1,"ttl":1}`, 400, "ttl"},
		{`{"design":"naive","buyers":1,"stock":1} {}`, 400, "more than one"},
		{`{"design":"` + strings.Repeat("x", 20<<10) + `"}`, 413, "16384"},
	} {
		w := post(h, c.body)
		var p struct {
			Status int    `json:"status"`
			Reason string `json:"reason"`
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%.60s: %v", c.body, err)
		}
		if w.Code != c.status || p.Status != c.status || p.Reason != "invalid" || !strings.Contains(p.Detail, c.words) ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60s: %d %s, want %d with %q", c.body, w.Code, w.Body, c.status, c.words)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/lab", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/lab", strings.NewReader(`{}`)))
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("no content type: %d", w.Code)
	}
}

// TestOneAtATime: a second run is refused while one goes on, and one whose caller went away
// makes room.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := lab.Handler(nil)
		const long = `{"design":"fenced","buyers":10,"stock":10,"pause_ms":2000}`
		ctx, leave := context.WithCancel(t.Context())
		first := make(chan int)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/lab", io.NopCloser(strings.NewReader(long)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			first <- w.Code
		}()
		time.Sleep(100 * time.Millisecond)
		w := post(h, long)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "overloaded") {
			t.Errorf("a second run: %d %s", w.Code, w.Body)
		}
		leave()
		if code := <-first; code != http.StatusServiceUnavailable {
			t.Errorf("a run whose caller went away: %d", code)
		}
		if w := post(h, `{"design":"atomic","buyers":10,"stock":10}`); w.Code != http.StatusOK {
			t.Errorf("after it: %d %s", w.Code, w.Body)
		}
	})
}
