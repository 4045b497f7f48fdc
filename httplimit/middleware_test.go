package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

const peer = "203.0.113.7:4711"

func TestAdmitsAndDenies(t *testing.T) {
	store, advance := fakestore.Clocked(t)
	h := wrap(t, store, set(t, policy.Config{Name: "api", Limits: limits("1/s burst 2")}), httplimit.Config{})
	for step, tc := range []struct {
		wait   time.Duration
		addr   string
		status int
		header string
	}{
		{0, peer, 200, `"api";r=1;t=1`},
		{0, peer, 200, `"api";r=0;t=2`},
		{0, peer, 429, `"api";r=0;t=1`},
		{0, "203.0.113.8:1", 200, `"api";r=1;t=1`},
		{time.Second - time.Microsecond, peer, 429, `"api";r=0;t=1`},
		{time.Microsecond, peer, 200, `"api";r=0;t=2`},
	} {
		advance(tc.wait)
		w := get(h, "/", tc.addr)
		if w.Code != tc.status || w.Header().Get("RateLimit") != tc.header {
			t.Errorf("step %d: %d and RateLimit %s, want %d and %s", step, w.Code, w.Header().Get("RateLimit"), tc.status, tc.header)
		}
		if got, want := w.Header().Get("RateLimit-Policy"), `"api";q=2;w=2`; got != want {
			t.Errorf("step %d: RateLimit-Policy %s, want %s", step, got, want)
		}
		if retry := w.Header().Get("Retry-After"); (retry == "1") != (tc.status == 429) {
			t.Errorf("step %d: Retry-After %q with status %d", step, retry, w.Code)
		}
	}
}

func TestDenialIsAProblem(t *testing.T) {
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "api", Limits: limits("100/s", "1/h")},
		policy.Config{Name: "daily", Limits: limits("1/24h")},
		policy.Config{Name: "wide", Limits: limits("1000/s")},
	), httplimit.Config{})
	if w := get(h, "/", peer); w.Code != 200 || w.Body.String() != "hello" {
		t.Fatalf("first answer = %d %q, want 200 hello", w.Code, w.Body)
	}
	w := get(h, "/", peer)
	if got, want := w.Header().Get("Content-Type"), "application/problem+json"; w.Code != 429 || got != want {
		t.Fatalf("second answer = %d of type %q, want 429 of type %q", w.Code, got, want)
	}
	var p struct {
		Type, Title string
		Status      int
		Violated    []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p.Title == "" || p.Status != 429 ||
		!slices.Equal(p.Violated, []string{"api/2", "daily"}) {
		t.Errorf("problem = %+v, want quota-exceeded by api/2 and daily", p)
	}
	if got := w.Header().Get("Retry-After"); got != "86400" {
		t.Errorf("Retry-After = %s, want 86400, the longest of all", got)
	}
	if got, want := w.Header().Get("RateLimit-Policy"), `"api/1";q=100;w=1, "api/2";q=1;w=3600, "daily";q=1;w=86400, "wide";q=1000;w=1`; got != want {
		t.Errorf("RateLimit-Policy = %s, want %s", got, want)
	}
	if got, want := w.Header().Get("RateLimit"), `"api/2";r=0;t=3600, "daily";r=0;t=86400`; got != want {
		t.Errorf("RateLimit of a denial = %s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "86400", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Length": fmt.Sprint(w.Body.Len()),
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// TestAllOrNothing checks that a request that one policy denies takes nothing from another.
func TestAllOrNothing(t *testing.T) {
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "narrow", Match: policy.Match{Paths: []string{"/n"}}, Limits: limits("1/h")},
		policy.Config{Name: "wide", Limits: limits("3/h")},
	), httplimit.Config{})
	for step, tc := range []struct {
		path   string
		status int
	}{{"/n", 200}, {"/n", 429}, {"/n", 429}, {"/", 200}, {"/", 200}, {"/", 429}} {
		if w := get(h, tc.path, peer); w.Code != tc.status {
			t.Errorf("step %d: %s = %d, want %d", step, tc.path, w.Code, tc.status)
		}
	}
}

func TestAnswerOfThePolicy(t *testing.T) {
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "short", Limits: limits("1/m"), OnDenied: policy.OnDenied{Status: 503, Body: "short"}},
		policy.Config{Name: "long", Limits: limits("1/h"), OnDenied: policy.OnDenied{
			Status: 302, Body: "<p>slow down", ContentType: "text/html", Headers: map[string]string{"location": "/wait", "Cache-Control": "max-age=1"},
		}},
	), httplimit.Config{})
	get(h, "/", peer)
	w := get(h, "/", peer)
	if w.Code != 302 || w.Body.String() != "<p>slow down" {
		t.Errorf("answer = %d %q, want that of the policy that holds back longest", w.Code, w.Body)
	}
	for name, want := range map[string]string{"Content-Type": "text/html", "Location": "/wait", "Cache-Control": "max-age=1", "Retry-After": "3600"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// TestRedirect checks that a redirect has no Retry-After, which would delay it.
func TestRedirect(t *testing.T) {
	for status, want := range map[int]int{0: 303, 307: 307} {
		h := wrap(t, fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("1/h"), OnDenied: policy.OnDenied{
			Status: status, Redirect: "/wait?for=it", Headers: map[string]string{"X-Why": "busy"},
		}}), httplimit.Config{})
		get(h, "/", peer)
		w := get(h, "/", peer)
		if w.Code != want || w.Body.Len() != 0 {
			t.Errorf("%d with %d bytes, want %d without a body", w.Code, w.Body.Len(), want)
		}
		for name, want := range map[string]string{
			"Location": "/wait?for=it", "X-Why": "busy", "Retry-After": "", "Content-Type": "", "Content-Length": "0", "Cache-Control": "no-store", "RateLimit": `"p";r=0;t=3600`,
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	}
}

func TestNoPolicyNoField(t *testing.T) {
	store := fakestore.Failing(errors.New("no request expected"))
	h := wrap(t, store, set(t,
		policy.Config{Name: "other", Match: policy.Match{Paths: []string{"/other"}}, Limits: limits("1/h")},
		policy.Config{Name: "off", Mode: policy.Off, Limits: limits("1/h")},
	), httplimit.Config{})
	w := get(h, "/", peer)
	if w.Code != 200 || len(w.Header()) != 1 { // Content-Type, of the recorder
		t.Errorf("answer = %d with %v, want 200 without fields", w.Code, w.Header())
	}
}

func TestStoreErrors(t *testing.T) {
	down := fmt.Errorf("fake: %w", weir.ErrUnavailable)
	for _, tc := range []struct {
		name     string
		modes    []policy.FailMode
		status   int
		degraded string
		outcome  enforce.Outcome
	}{
		{"open", []policy.FailMode{policy.Open}, 200, "open", enforce.FailedOpen},
		{"closed", []policy.FailMode{policy.Closed}, 503, "closed", enforce.FailedClosed},
		{"one of them closed", []policy.FailMode{policy.Open, policy.Closed, policy.Open}, 503, "closed", enforce.FailedClosed},
	} {
		var cs []policy.Config
		for i, m := range tc.modes {
			cs = append(cs, policy.Config{Name: fmt.Sprint("p", i), Limits: limits("1/s"), OnStoreError: m})
		}
		var events []enforce.Event
		h := wrap(t, fakestore.Failing(down), set(t, cs...), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) }})
		w := get(h, "/", peer)
		if w.Code != tc.status || w.Header().Get(httplimit.DegradedField) != tc.degraded {
			t.Errorf("%s: %d, %s %q, want %d, %q", tc.name, w.Code, httplimit.DegradedField, w.Header().Get(httplimit.DegradedField), tc.status, tc.degraded)
		}
		if w.Header().Get("RateLimit") != "" || w.Header().Get("X-RateLimit-Remaining") != "" {
			t.Errorf("%s: fields without a decision: %v", tc.name, w.Header())
		}
		if tc.status == 503 && (w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") || !json.Valid(w.Body.Bytes())) {
			t.Errorf("%s: Retry-After %q, body %s, want 1 and a problem", tc.name, w.Header().Get("Retry-After"), w.Body)
		}
		if len(events) != len(tc.modes) {
			t.Errorf("%s: %d events, want %d", tc.name, len(events), len(tc.modes))
		}
		for _, e := range events {
			if e.Outcome != tc.outcome || !errors.Is(e.Err, weir.ErrUnavailable) {
				t.Errorf("%s: event %s, %v, want %s with the store's error", tc.name, e.Outcome, e.Err, tc.outcome)
			}
		}
	}
}

// TestOverload checks that a request that this process is too busy to decide is refused in every
// mode, with the RetryAfter of the error.
func TestOverload(t *testing.T) {
	busy := fmt.Errorf("store: %w", &weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond})
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		h := wrap(t, fakestore.Failing(busy), set(t, policy.Config{Name: "p", Limits: limits("9/s"), OnStoreError: mode}), httplimit.Config{})
		w := get(h, "/", peer)
		if w.Code != 503 || w.Header().Get("Retry-After") != "3" || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") {
			t.Errorf("%s: %d, Retry-After %q, %s, want 503, 3 and a problem", mode, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
		if mode, ok := w.Header()[httplimit.DegradedField]; ok {
			t.Errorf("Weir-Degraded %q, want none: no mode decided", mode)
		}
	}
}

// TestCanceledRequestIsNotServed checks that a client that disconnects while a slow store is asked
// is not served.
func TestCanceledRequestIsNotServed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := fakestore.Store{One: func(ctx context.Context, _ weir.Request) (weir.Decision, error) {
		cancel()
		return weir.Decision{}, context.Cause(ctx)
	}}
	m, err := httplimit.New(store, set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	served := false
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if served || w.Code != 503 {
		t.Errorf("served = %v, status %d, want an unserved 503", served, w.Code)
	}
}

func TestDegradedDecision(t *testing.T) {
	store := fakestore.Answering(weir.Decision{OK: true, Degraded: policy.Local})
	w := get(wrap(t, store, set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{}), "/", peer)
	if got := w.Header().Get(httplimit.DegradedField); w.Code != 200 || got != "local" {
		t.Errorf("%d, %s = %q, want 200, local", w.Code, httplimit.DegradedField, got)
	}
}

func TestShadow(t *testing.T) {
	var events []string
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "shadow", Mode: policy.Shadow, Limits: limits("1/h", "100/h")},
		policy.Config{Name: "real", Limits: limits("3/h")},
	), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
		events = append(events, fmt.Sprintf("%s %s %d", e.Policy.Name(), e.Outcome, e.Decision.Remaining))
	}})
	for step, want := range []struct {
		status int
		events []string
	}{
		{200, []string{"real admitted 2", "shadow admitted 0"}},
		{200, []string{"real admitted 1", "shadow denied 0"}},
		{200, []string{"real admitted 0", "shadow denied 0"}},
		{429, []string{"real denied 0"}},
	} {
		events = nil
		w := get(h, "/", peer)
		if w.Code != want.status || !slices.Equal(events, want.events) {
			t.Errorf("step %d: %d and %q, want %d and %q", step, w.Code, events, want.status, want.events)
		}
		if got := w.Header().Get("RateLimit-Policy"); strings.Contains(got, "shadow") {
			t.Errorf("step %d: RateLimit-Policy %s reports a shadow policy", step, got)
		}
	}
}

func TestShadowStoreErrorLetsThrough(t *testing.T) {
	var events []enforce.Event
	h := wrap(t, fakestore.Failing(weir.ErrUnavailable), set(t, policy.Config{Name: "s", Mode: policy.Shadow, OnStoreError: policy.Closed, Limits: limits("1/h")}),
		httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) }})
	if w := get(h, "/", peer); w.Code != 200 || len(events) != 1 || events[0].Outcome != enforce.FailedOpen {
		t.Errorf("%d and %v, want 200 and one failed_open", w.Code, events)
	}
}

func TestObserveHeld(t *testing.T) {
	var events []string
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "a", Limits: limits("9/h")}, policy.Config{Name: "b", Limits: limits("1/h")},
	), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
		events = append(events, fmt.Sprintf("%s %s %s", e.Policy.Name(), e.Outcome, e.Key))
	}})
	get(h, "/", peer)
	get(h, "/", peer)
	want := []string{
		"a admitted a|11:203.0.113.7", "b admitted b|11:203.0.113.7", "a held a|11:203.0.113.7", "b denied b|11:203.0.113.7",
	}
	if !slices.Equal(events, want) {
		t.Errorf("events = %q, want %q", events, want)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := wrap(t, fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("10/s leaky_bucket burst 5 queue")}), httplimit.Config{})
		for step, want := range []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond} {
			start := time.Now()
			w := get(h, "/", peer)
			if got := time.Since(start); w.Code != 200 || got != want {
				t.Errorf("step %d: %d after %v, want 200 after %v", step, w.Code, got, want)
			}
		}
	})
}

// TestDelayIsReset checks that an undecided request is not delayed by the delay of the
// request before.
func TestDelayIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		delaying := fakestore.Answering(weir.Decision{OK: true, Delay: time.Minute})
		store := fakestore.Store{All: func(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
			if err != nil {
				return false, err
			}
			return delaying.DoAll(ctx, rs, ds)
		}}
		h := wrap(t, store, set(t, policy.Config{Name: "p", Limits: limits("1/s", "2/s")}), httplimit.Config{})
		for _, want := range []time.Duration{time.Minute, 0} {
			start := time.Now()
			if w := get(h, "/", peer); w.Code != 200 || time.Since(start) != want {
				t.Errorf("%d after %v with error %v, want 200 after %v", w.Code, time.Since(start), err, want)
			}
			err = weir.ErrUnavailable
		}
	})
}

func TestDelayEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fakestore.Answering(weir.Decision{OK: true, Delay: time.Hour})
		m, err := httplimit.New(store, set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		served := false
		h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if got := time.Since(start); served || got != time.Minute || w.Code != 503 {
			t.Errorf("served = %v with %d after %v, want an unserved 503 after 1m", served, w.Code, got)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		retry, jitter time.Duration
		low, high     int
	}{
		{time.Microsecond, 0, 1, 1},
		{time.Second, 0, 1, 1},
		{time.Second + 1, 0, 2, 2},
		{0, 0, 1, 1},
		{10 * time.Second, 5 * time.Second, 10, 15},
		{weir.Never - 1, time.Hour, 9223372037, 9223372037},
	} {
		h := wrap(t, fakestore.Answering(weir.Decision{RetryAfter: tc.retry}), set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{RetryJitter: tc.jitter})
		seen := map[string]bool{}
		for range 200 {
			text := get(h, "/", peer).Header().Get("Retry-After")
			var n int
			if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < tc.low || n > tc.high || fmt.Sprint(n) != text {
				t.Fatalf("Retry-After of %v with jitter %v = %q, want %d to %d", tc.retry, tc.jitter, text, tc.low, tc.high)
			}
			seen[text] = true
		}
		if tc.low < tc.high && len(seen) < 3 {
			t.Errorf("Retry-After with jitter %v takes only %d values", tc.jitter, len(seen))
		}
	}
	h := wrap(t, fakestore.Answering(weir.Decision{RetryAfter: weir.Never}), set(t, policy.Config{Name: "p", Limits: limits("1/s")}), httplimit.Config{RetryJitter: time.Second})
	if w := get(h, "/", peer); w.Code != 429 || w.Header().Values("Retry-After") != nil {
		t.Errorf("a denial for ever = %d with Retry-After %q, want 429 without", w.Code, w.Header().Values("Retry-After"))
	}
}

func TestNewErrors(t *testing.T) {
	store, policies := fakestore.Memory(t), set(t)
	for name, call := range map[string]func() error{
		"no store":        func() error { _, err := httplimit.New(nil, policies, httplimit.Config{}); return err },
		"no set":          func() error { _, err := httplimit.New(store, nil, httplimit.Config{}); return err },
		"negative jitter": func() error { _, err := httplimit.New(store, policies, httplimit.Config{RetryJitter: -1}); return err },
		"jitter too long": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{RetryJitter: math.MaxInt64})
			return err
		},
		"two drafts": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Fields: httplimit.Draft03 | httplimit.Draft08})
			return err
		},
		"off and something": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Fields: httplimit.NoFields | httplimit.Legacy})
			return err
		},
		"unknown fields": func() error { _, err := httplimit.New(store, policies, httplimit.Config{Fields: 128}); return err },
		"negative room": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Options: enforce.Options{MaxWaiters: -1}})
			return err
		},
		"reservations too short": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Options: enforce.Options{SettleTTL: time.Second - 1}})
			return err
		},
		"reservations too long": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Options: enforce.Options{SettleTTL: bounds.MaxTTL + 1}})
			return err
		},
		"header": func() error {
			_, err := httplimit.New(store, policies, httplimit.Config{Client: httplimit.ClientAddress{Header: "X-Real-IP"}})
			return err
		},
	} {
		if err := call(); !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%s: New = %v, want an error of httplimit that wraps weir.ErrInvalid", name, err)
		}
	}
}
