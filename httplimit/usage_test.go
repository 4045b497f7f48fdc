package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// meter returns a meter with the prices of the fixtures of package budget.
func meter(t testing.TB, c budget.MeterConfig) *budget.Meter {
	t.Helper()
	var err error
	c.Prices, err = budget.NewPrices("highest", budget.Price{Models: []string{"m1"}, Input: "1.25", Cached: "0.125", Output: "10"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := budget.NewMeter(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBudgetOfFixtures checks the charge for a response of each format, to the micro-dollar.
func TestBudgetOfFixtures(t *testing.T) {
	types := map[string]string{".json": "application/json", ".sse": "text/event-stream", ".ndjson": "application/x-ndjson"}
	files, err := filepath.Glob("../budget/testdata/*.*")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d fixtures, %v, want at least 7", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for unit, want := range map[budget.Unit]int64{budget.USD: 558, budget.Tokens: 150, budget.InputTokens: 100, budget.OutputTokens: 50} {
			if strings.Contains(file, "ollama") && unit == budget.USD {
				want = 625
			}
			store := fakestore.Memory(t)
			c := policy.Config{Name: "p", Limits: limits(ample), Settle: policy.Settle{Meter: meter(t, budget.MeterConfig{Unit: unit})}}
			h := serving(t, store, set(t, c), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "identity" {
					t.Error("the upstream may encode its response")
				}
				w.Header().Set("Content-Type", types[filepath.Ext(file)])
				writePieces(w, string(text), 100)
			})
			get(h, "/model/m1/converse", peer)
			if got := charged(t, store, "p", ample); got != want {
				t.Errorf("%s in %s: charged %d, want %d", file, unit, got, want)
			}
		}
	}
}

// TestBudgetWithoutUsage checks the charge and the reason of a response without complete usage.
func TestBudgetWithoutUsage(t *testing.T) {
	const bound = 1000 + 100 // tokens
	delta := `data: {"object":"chat.completion.chunk","model":"m1","choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	for _, tc := range []struct {
		name, body   string
		status       int
		disconnect   bool
		want         int64
		reason       error
		unknownModel bool
	}{
		{name: "no usage", body: delta, status: 200, want: bound, reason: budget.ErrNoUsage},
		{name: "more than was reserved", body: strings.Repeat(delta, 2000), status: 200, want: 2000, reason: budget.ErrNoUsage},
		{name: "an error of the upstream", body: `data: {"error":{"message":"overloaded"}}` + "\n\n", status: 529, want: 0},
		{name: "an error after some text", body: delta, status: 500, want: bound, reason: budget.ErrNoUsage},
		{name: "bad usage", body: `data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":-1}}` + "\n\n", status: 200, want: bound, reason: budget.ErrBadUsage},
		{name: "disconnected", body: delta, status: 200, disconnect: true, want: bound, reason: budget.ErrDisconnected},
		{name: "disconnected after the usage", body: delta + `data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":9,"completion_tokens":0}}` + "\n\n", status: 200, disconnect: true, want: 9},
	} {
		store := fakestore.Memory(t)
		c := policy.Config{Name: "p", Limits: limits(ample), Settle: policy.Settle{Meter: meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxOutput: 100})}}
		var events []enforce.Event
		ctx, cancel := context.WithCancel(t.Context())
		h := serving(t, store, set(t, c), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
			if e.Outcome.AtEnd() {
				events = append(events, e)
			}
		}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(tc.status)
			writePieces(w, tc.body, 64)
			if tc.disconnect {
				cancel()
			}
		})
		r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
		r.RemoteAddr = peer
		h.ServeHTTP(httptest.NewRecorder(), r)
		cancel()
		if got := charged(t, store, "p", ample); got != tc.want {
			t.Errorf("%s: charged %d, want %d", tc.name, got, tc.want)
		}
		if tc.reason == nil && len(events) > 0 || tc.reason != nil && (len(events) != 1 || !errors.Is(events[0].Err, tc.reason) || events[0].Cost != tc.want) {
			t.Errorf("%s: events %+v, want cost %d and %v", tc.name, events, tc.want, tc.reason)
		}
	}
}

// TestBudgetLevels checks that levels are charged together or not at all, at the bound until the
// response and at the usage after it.
func TestBudgetLevels(t *testing.T) {
	store := fakestore.Memory(t)
	level := func(name, limit string) policy.Config {
		return policy.Config{Name: name, Limits: limits(limit), Settle: policy.Settle{Meter: meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 100})}}
	}
	names := map[string]string{"key": "1000/24h fixed_window", "team": "2000/24h fixed_window", "org": "450/24h fixed_window"}
	h := serving(t, store, set(t, level("key", names["key"]), level("team", names["team"]), level("org", names["org"])), httplimit.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		for name, limit := range names {
			if got := charged(t, store, name, limit); got%150 != 50 {
				t.Errorf("%s: charged %d during the response, want 200 more than the usage before", name, got)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"object":"chat.completion","usage":{"prompt_tokens":100,"completion_tokens":50}}`))
	})
	for i, want := range []int{200, 200, 429} { // a third bound does not fit into 450
		w := get(h, "/", peer)
		if w.Code != want {
			t.Fatalf("request %d: %d, want %d", i+1, w.Code, want)
		}
		if got := w.Header().Get("RateLimit-Policy"); !strings.Contains(got, `"team";q=2000;qu="tokens";w=86400`) {
			t.Errorf("RateLimit-Policy = %s, want the unit tokens", got)
		}
	}
	for name, limit := range names {
		if got := charged(t, store, name, limit); got != 300 {
			t.Errorf("%s: charged %d, want 300, the usage of two responses", name, got)
		}
	}
}
