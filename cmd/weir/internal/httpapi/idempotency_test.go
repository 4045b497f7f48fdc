package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/policy"
)

// TestIdempotency checks that a request with a key is charged once, by any process, and
// that the key is new after a day.
func TestIdempotency(t *testing.T) {
	store, now := frozen(t)
	one, two := api(t, httpapi.Config{Store: store}), api(t, httpapi.Config{Store: store})
	const day = 24 * 3600
	for i, step := range []struct {
		after           int64 // s
		path, key, body string
		want            string
	}{
		{0, "take", "A", `{"key":"k","limit":"10/h","n":4}`, "ok granted 4 remaining 6 reset 1440"},
		{0, "take", "A", `{"key":"k","limit":"10/h","n":4}`, "replayed granted 4 remaining 6"},
		{0, "take", "A", `{ "n": 4, "limit": "10/h burst 10", "key": "k" }`, "replayed granted 4 remaining 6"}, // the same question
		{0, "take", "B", `{"key":"k","limit":"10/h","n":4}`, "ok granted 4 remaining 2 reset 2880"},
		{0, "take", "A", `{"key":"k","limit":"10/h","n":3}`, "422 Idempotency-Key"},
		{0, "charge", "A", `{"key":"k","limit":"10/h","n":4}`, "422 Idempotency-Key"},
		{0, "take", "A", `{"key":"l","limit":"10/h","n":4}`, "422 Idempotency-Key"},
		{0, "take", "C", `{"key":"k","limit":"10/h","n":4}`, "denied remaining 2 retry 720"},
		{0, "take", "C", `{"key":"k","limit":"10/h","n":4}`, "denied remaining 2 retry 720"},
		{720, "take", "C", `{"key":"k","limit":"10/h","n":4}`, "ok granted 4 remaining 0 reset 3600"}, // a denial is not remembered
		{0, "take", "C", `{"key":"k","limit":"10/h","n":4}`, "replayed granted 4 remaining 0"},
		{0, "take", "C", `{"key":"k","limit":"10/h","n":40}`, "422 Idempotency-Key"},
		{0, "take", "D", `{"key":"k","limit":"10/h","n":40}`, "never"},

		{0, "charge", "E", `{"key":"c","limit":"10/h","n":15}`, "ok granted 15 remaining 0 reset 5400"},
		{0, "charge", "E", `{"key":"c","limit":"10/h","n":15}`, "replayed granted 15 remaining 0"},
		{0, "return", "F", `{"key":"c","limit":"10/h","n":9}`, "ok granted 0 remaining 4 reset 2160"},
		{0, "return", "F", `{"key":"c","limit":"10/h","n":9}`, "replayed granted 0 remaining 4"},
		{0, "return", "F", `{"key":"c","limit":"10/h","n":9,"at":"2026-01-02T15:04:05Z"}`, "422 Idempotency-Key"},

		{0, "batch", "G", `{"requests":[{"verb":"take","key":"b","limit":"10/h"},{"verb":"charge","key":"c","limit":"10/h"}]}`, "ok granted 1 remaining 3 reset 2520"},
		{0, "batch", "G", `{"requests":[{"verb":"take","key":"b","limit":"10/h"},{"verb":"charge","key":"c","limit":"10/h"}]}`, "replayed granted 1 remaining 3"},
		{0, "batch", "G", `{"requests":[{"verb":"charge","key":"b","limit":"10/h"},{"verb":"take","key":"c","limit":"10/h"}]}`, "422 Idempotency-Key"},

		// Verbs that may be repeated anyway have no use for a key.
		{0, "peek", "A", `{"key":"b","limit":"10/h"}`, "ok granted 0 remaining 9 reset 360"},
		{0, "reserve", "A", `{"key":"r","limit":"10/h","id":"x","ttl":60}`, "ok granted 1 remaining 9 reset 60"},
		{0, "commit", "A", `{"key":"r","limit":"10/h","id":"x","n":2}`, "ok granted 2 remaining 8 reset 720"},
		{0, "reset", "A", `{"key":"b","limit":"10/h"}`, "ok granted 0 remaining 10 reset 0"},

		// A slot of a concurrency limit is taken once too.
		{0, "take", "S", `{"key":"s","limit":"2 concurrency lease 1h"}`, "ok granted 1 remaining 1 reset 3600"},
		{0, "take", "S", `{"key":"s","limit":"2 concurrency lease 1h"}`, "replayed granted 1 remaining 1"},

		{day - 721, "take", "A", `{"key":"k","limit":"10/h","n":4}`, "replayed granted 4 remaining 10"},
		{0, "take", "A", `{"key":"k","limit":"10/h","n":3}`, "422 Idempotency-Key"},
		{1, "take", "A", `{"key":"k","limit":"10/h","n":4}`, "ok granted 4 remaining 6 reset 1440"},
	} {
		*now += step.after * second
		a := one
		if i%2 == 1 {
			a = two
		}
		w := askWith(a, "POST", "/v1/"+step.path, step.body, "Idempotency-Key", step.key)
		if got := said(t, w.Body.Bytes()); got != step.want {
			t.Errorf("step %d: %s %s with %s = %q, want %q\n%s", i+1, step.path, step.body, step.key, got, step.want, w.Body)
		}
		if replayed := strings.HasPrefix(step.want, "replayed"); (w.Header().Get("Idempotency-Replayed") == "true") != replayed {
			t.Errorf("step %d: Idempotency-Replayed = %q", i+1, w.Header().Get("Idempotency-Replayed"))
		}
	}
}

// TestIdempotencyAtOnce checks that concurrent requests with one key are charged once.
func TestIdempotencyAtOnce(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	const body = `{"key":"k","limits":["1000/h","500/24h"],"n":3}`
	var fresh, replayed atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			w := askWith(a, "POST", "/v1/take", body, "Idempotency-Key", "once")
			switch {
			case w.Code == 200 && strings.Contains(w.Body.String(), `"replayed":true`):
				replayed.Add(1)
			case w.Code == 200 && strings.HasPrefix(w.Body.String(), `{"ok":true`):
				fresh.Add(1)
			}
		})
	}
	wg.Wait()
	if fresh.Load() != 1 || replayed.Load() != 49 {
		t.Errorf("%d were charged and %d replayed, want 1 and 49", fresh.Load(), replayed.Load())
	}
	if got := said(t, ask(a, "POST", "/v1/peek", `{"key":"k","limit":"1000/h"}`).Body.Bytes()); !strings.Contains(got, "remaining 997 ") {
		t.Errorf("left is %s, want 997", got)
	}
}

func TestBadIdempotencyKeys(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	const q = `{"key":"k","limit":"10/s"}`
	many := `{"requests":[` + strings.Repeat(`{"verb":"take","key":"k","limit":"10/s"},`, 254) + `{"verb":"take","key":"k","limit":"10/s"}]}`
	for _, test := range []struct {
		path, body, value, expected string
		keys                        []string
	}{
		{"take", q, "nothing", "1 to 256 visible ASCII", []string{""}},
		{"take", q, "a b", "visible ASCII", []string{"a b"}},
		{"take", q, "é", "visible ASCII", []string{"é"}},
		{"take", q, "xxx", "1 to 256", []string{strings.Repeat("x", 257)}},
		{"take", q, "2 of them", "one key", []string{"a", "a"}},
		{"take_up_to", q, "take_up_to", "take, charge or return", []string{"a"}},
		{"batch", `{"requests":[{"verb":"peek","key":"k","limit":"10/s"}]}`, "peek", "take, charge or return", []string{"a"}},
		{"batch", many, "255 limits", "at most 254", []string{"a"}},
	} {
		var pairs []string
		for _, k := range test.keys {
			pairs = append(pairs, "Idempotency-Key", k)
		}
		w := askWith(a, "POST", "/v1/"+test.path, test.body, pairs...)
		var p struct{ Field, Value, Expected string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || p.Field != "Idempotency-Key" || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) {
			t.Errorf("%s with %.40q = %d %s, want 400 with %q, %q", test.path, test.keys, w.Code, w.Body, test.value, test.expected)
		}
	}
	if w := askWith(a, "POST", "/v1/take", q, "Idempotency-Key", strings.Repeat("~", 256)); w.Code != 200 {
		t.Errorf("a key of 256 bytes = %d %s", w.Code, w.Body)
	}
}

// TestIdempotencyDegraded checks that a denial without the store is not taken for a known
// key or for a reused key.
func TestIdempotencyDegraded(t *testing.T) {
	for _, mode := range []weir.FailMode{policy.Closed, policy.Local} {
		a := api(t, httpapi.Config{Store: degraded{mode}})
		if w := askWith(a, "POST", "/v1/take", `{"key":"k","limit":"10/s"}`, "Idempotency-Key", "a"); w.Code != 503 {
			t.Errorf("take with a key, failed %s = %d %s, want 503", mode, w.Code, w.Body)
		}
		if w := ask(a, "POST", "/v1/take", `{"key":"k","limit":"10/s"}`); w.Code != 200 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"degraded":%q`, mode)) {
			t.Errorf("take without a key, failed %s = %d %s, want 200", mode, w.Code, w.Body)
		}
	}
}
