package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/protect"
)

func protection(t *testing.T, s guard.Settings) func(http.Handler) http.Handler {
	t.Helper()
	all, err := failsafe.ForRequests("upstream", s)
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.Protect(httplimit.ProtectConfig{Chain: protect.New(protect.Config{Protections: all})})
}

func post(t *testing.T, url string, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, text := do(t, r)
	return res.StatusCode, text
}

// TestBreakerOpens checks that failures of the upstream open its breaker, that those of clients
// do not, and that a rejected request costs no tokens.
func TestBreakerOpens(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fails") {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	breaker := protection(t, guard.Settings{Breaker: &guard.Breaker{Failures: 2}})
	at := start(t, gateway.Config{
		Limit: httplimit.Limit(store, "6/h", httplimit.ByIP),
		Routes: []gateway.Route{
			{Path: "/", Upstream: up, Protect: breaker, MaxBody: 3},
			{Path: "/other", Upstream: up},
		},
	})
	for i, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{path: "/fails", status: 500},
		{path: "/fails", body: "too large", status: 413}, // neither failure nor success
		{path: "/fails", body: "too large, without a length", status: 413},
		{path: "/fails", status: 500},
		{path: "/works", status: 503, text: `"protection":"breaker"`},
		{path: "/works", status: 503, text: `#temporary-reduced-capacity"`},
		{path: "/other", status: 200},
		{path: "/other", status: 200}, // the last request that the limit admits
		{path: "/other", status: 429},
	} {
		if status, text := post(t, at+c.path, body(c.body)); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("request %d to %s: %d %s, want %d %s", i, c.path, status, text, c.status, c.text)
		}
	}
}

// body returns a request body, whose length is announced unless the text says otherwise.
func body(text string) io.Reader {
	if strings.HasSuffix(text, "without a length") {
		return io.MultiReader(strings.NewReader(text))
	}
	return strings.NewReader(text)
}

// TestBulkheadHoldsStream checks that a stream holds its slot until it ends, and that a denial
// by a limit releases it.
func TestBulkheadHoldsStream(t *testing.T) {
	end := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			http.NewResponseController(w).Flush()
			<-end
		}
	})
	deny := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/denied" {
				protect.FromContext(r.Context()).Cancel()
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	at := start(t, gateway.Config{Limit: deny, Routes: []gateway.Route{{Upstream: up, Protect: protection(t, guard.Settings{
		Bulkhead: &guard.Bulkhead{Max: 1}, Adaptive: &guard.Adaptive{Min: 1, Max: 1, Initial: 1},
	})}}})
	for range 2 {
		if status, _ := post(t, at+"/denied", nil); status != 429 {
			t.Errorf("denied: %d, want 429", status)
		}
	}
	res, err := http.Get(at + "/stream")
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	if status, text := post(t, at, nil); status != 503 || !strings.Contains(text, `"protection":"bulkhead"`) {
		t.Errorf("during the stream: %d %s, want 503 of the bulkhead", status, text)
	}
	close(end)
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	for range 100 { // the handler ends a little after the body
		if status, _ := post(t, at, nil); status == 200 {
			return
		}
	}
	t.Error("after the stream: want 200")
}
