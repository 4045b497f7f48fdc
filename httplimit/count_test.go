package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestCountAll checks that denied requests count, and that a client that waits for Retry-After
// is admitted.
func TestCountAll(t *testing.T) {
	store, advance := fakestore.Clocked(t)
	h := wrap(t, store, set(t,
		policy.Config{Name: "all", Limits: limits("1/s burst 2", "100/h"), Count: policy.CountAll},
		policy.Config{Name: "admitted", Limits: limits("100/h")},
	), httplimit.Config{})
	for step, tc := range []struct {
		wait   time.Duration
		status int
		retry  string
	}{
		{0, 200, ""},
		{0, 200, ""},
		{0, 429, "2"}, // one for itself
		{0, 429, "3"},
		{time.Second, 429, "3"},
		{3*time.Second - time.Microsecond, 429, "2"},
		{1*time.Second + time.Microsecond, 200, ""},
	} {
		advance(tc.wait)
		if w := get(h, "/", peer); w.Code != tc.status || w.Header().Get("Retry-After") != tc.retry {
			t.Errorf("step %d: %d, Retry-After %q, want %d, %q", step, w.Code, w.Header().Get("Retry-After"), tc.status, tc.retry)
		}
	}
	if all, admitted := charged(t, store, "all", "100/h"), charged(t, store, "admitted", "100/h"); all != 7 || admitted != 3 {
		t.Errorf("charged %d and %d, want 7 of all and 3 of admitted", all, admitted)
	}
}

// TestCountAllOfAnotherDenial checks that a request counts, whichever policy denied it.
func TestCountAllOfAnotherDenial(t *testing.T) {
	store := fakestore.Memory(t)
	h := wrap(t, store, set(t,
		policy.Config{Name: "narrow", Limits: limits("1/h")},
		policy.Config{Name: "all", Limits: limits("9/h"), Count: policy.CountAll},
	), httplimit.Config{})
	for range 4 {
		get(h, "/", peer)
	}
	if got := charged(t, store, "all", "9/h"); got != 4 {
		t.Errorf("charged %d, want 4", got)
	}
}

// TestCountAllOfACanceledRequest checks that disconnecting after a denial does not avoid the
// charge.
func TestCountAllOfACanceledRequest(t *testing.T) {
	store := fakestore.Memory(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := wrap(t, canceling(store), set(t, policy.Config{Name: "p", Limits: limits("9/h"), Cost: 5, Count: policy.CountAll}), httplimit.Config{
		Observe: func(_ *http.Request, e enforce.Event) {
			if e.Outcome == enforce.Denied {
				cancel()
			}
		},
	})
	get(h, "/", peer)
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.RemoteAddr = peer
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got := charged(t, store, "p", "9/h"); got != 9 {
		t.Errorf("charged %d, want all 9", got)
	}
}

func TestCountAllFails(t *testing.T) {
	for _, verb := range []weir.Verb{weir.Charge, weir.Peek} {
		store := fakestore.Memory(t)
		var ctxErr error
		failing := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if r.Verb == verb {
				ctxErr = ctx.Err()
				return weir.Decision{}, weir.ErrUnavailable
			}
			return store.Do(ctx, r)
		}}
		c := httplimit.Config{}
		events := observed(&c)
		h := wrap(t, failing, set(t, policy.Config{Name: "p", Limits: limits("1/h"), Count: policy.CountAll}), c)
		get(h, "/", peer)
		w := get(h, "/", peer)
		got, want := events(), []string{"p admitted", "p denied", "p unsettled error"}
		if verb == weir.Peek {
			want = want[:2]
		}
		if w.Code != 429 || w.Header().Get("Retry-After") != "3600" || !slices.Equal(got, want) || ctxErr != nil {
			t.Errorf("%s fails: %d, Retry-After %q, %q, want 429, 3600, %q", verb, w.Code, w.Header().Get("Retry-After"), got, want)
		}
	}
}

func TestCountAllLocal(t *testing.T) {
	local := fakestore.Memory(t)
	h := wrap(t, fakestore.Failing(weir.ErrUnavailable), set(t,
		policy.Config{Name: "p", Limits: limits("1/h", "3/2h"), Count: policy.CountAll, OnStoreError: policy.Local},
		policy.Config{Name: "open", Limits: limits("1/h"), Count: policy.CountAll},
	), httplimit.Config{Options: enforce.Options{Local: local}})
	for step, want := range []int{200, 429, 429} {
		if w := get(h, "/", peer); w.Code != want || w.Header().Get(httplimit.DegradedField) != "local" {
			t.Errorf("step %d: %d %q, want %d local", step, w.Code, w.Header().Get(httplimit.DegradedField), want)
		}
	}
	if got := charged(t, local, "p", "3/2h"); got != 3 {
		t.Errorf("charged %d, want 3", got)
	}
}

// status is a handler that answers with the status in the path.
func status(w http.ResponseWriter, r *http.Request) {
	var code int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err == nil {
		w.WriteHeader(code)
	}
}

// TestCountByStatus checks what each outcome costs when failures or successes count.
func TestCountByStatus(t *testing.T) {
	own := [][2]int{{401, 401}, {403, 403}}
	for _, tc := range []struct {
		count    policy.Count
		failures [][2]int
		costs    map[string]int64
	}{
		{policy.CountAdmitted, nil, map[string]int64{"/200": 2, "/401": 2, "/500": 2}},
		{policy.CountAll, nil, map[string]int64{"/200": 2, "/401": 2, "/500": 2}},
		{policy.CountFailures, nil, map[string]int64{"/": 0, "/200": 0, "/399": 0, "/400": 2, "/599": 2, "/600": 0, "/101": 0}},
		{policy.CountSuccesses, nil, map[string]int64{"/": 2, "/200": 2, "/399": 2, "/400": 0, "/599": 0, "/600": 2}},
		{policy.CountFailures, own, map[string]int64{"/200": 0, "/400": 0, "/401": 2, "/402": 0, "/403": 2, "/500": 0}},
		{policy.CountFailures, [][2]int{{200, 200}}, map[string]int64{"/": 2, "/200": 2, "/201": 0, "/500": 0}},
		{policy.CountSuccesses, own, map[string]int64{"/200": 2, "/400": 2, "/401": 0, "/402": 2, "/403": 0, "/500": 2}},
	} {
		for path, want := range tc.costs {
			store := fakestore.Memory(t)
			p := policy.Config{Name: "p", Limits: limits("9/h", "99/24h"), Cost: 2, Count: tc.count, Failures: tc.failures}
			get(serving(t, store, set(t, p), httplimit.Config{}, status), path, peer)
			for _, limit := range []string{"9/h", "99/24h"} {
				if got := charged(t, store, "p", limit); got != want {
					t.Errorf("count %s %v: %s costs %d of %s, want %d", tc.count, tc.failures, path, got, limit, want)
				}
			}
		}
	}
}

// TestGuessing checks that as many failures as the limit are admitted. Successes do not count;
// a failure is reserved while a request runs, for at most 10 minutes.
func TestGuessing(t *testing.T) {
	store := fakestore.Memory(t)
	h := serving(t, store, set(t, policy.Config{Name: "p", Limits: limits("3/h"), Count: policy.CountFailures}), httplimit.Config{}, status)
	for step, tc := range []struct {
		path   string
		status int
		fields string
	}{
		{"/200", 200, `"p";r=2;t=600`},
		{"/200", 200, `"p";r=2;t=600`},
		{"/401", 401, `"p";r=2;t=600`},
		{"/401", 401, `"p";r=1;t=1200`},
		{"/200", 200, `"p";r=0;t=2400`},
		{"/401", 401, `"p";r=0;t=2400`},
		{"/200", 429, `"p";r=0;t=1200`},
		{"/200", 429, `"p";r=0;t=1200`}, // a denial costs nothing
	} {
		if w := get(h, tc.path, peer); w.Code != tc.status || w.Header().Get("RateLimit") != tc.fields {
			t.Errorf("step %d: %d with %s, want %d with %s", step, w.Code, w.Header().Get("RateLimit"), tc.status, tc.fields)
		}
	}
}

// TestCountOfAPanic checks that a handler that panics has failed, unless its client had
// disconnected after the response began.
func TestCountOfAPanic(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wrote int
		gone  bool
		count policy.Count
		want  int64
	}{
		{"before an answer", 0, false, policy.CountFailures, 1},
		{"in an answer", 200, false, policy.CountFailures, 1},
		{"in an answer", 200, false, policy.CountSuccesses, 0},
		{"of a client that went", 200, true, policy.CountSuccesses, 1},
		{"of a client that went", 500, true, policy.CountFailures, 1},
		{"of a client that went before an answer", 0, true, policy.CountFailures, 1},
		{"that does not matter", 0, false, policy.CountAdmitted, 1},
	} {
		store := fakestore.Memory(t)
		ctx, cancel := context.WithCancel(t.Context())
		p := policy.Config{Name: "p", Limits: limits("9/h"), Count: tc.count, Settle: policy.Settle{Header: "X-Cost"}}
		h := serving(t, canceling(store), set(t, p), httplimit.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if tc.wrote != 0 {
				w.WriteHeader(tc.wrote)
			}
			if tc.gone {
				cancel()
			}
			panic(http.ErrAbortHandler)
		})
		r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
		r.RemoteAddr = peer
		func() {
			defer func() {
				if v := recover(); v != any(http.ErrAbortHandler) {
					t.Errorf("%s: recovered %v, want the handler's panic", tc.name, v)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		cancel()
		if got := charged(t, store, "p", "9/h"); got != tc.want {
			t.Errorf("a panic %s with count %s costs %d, want %d", tc.name, tc.count, got, tc.want)
		}
	}
}

// TestNoResponse checks that admitted requests count if there are no responses.
func TestNoResponse(t *testing.T) {
	for _, count := range []policy.Count{policy.CountAdmitted, policy.CountFailures, policy.CountSuccesses} {
		memory := fakestore.Memory(t)
		verbs := map[weir.Verb]int{}
		store := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			verbs[r.Verb]++
			return memory.Do(ctx, r)
		}}
		p := policy.Config{Name: "p", Limits: limits("9/h"), Count: count, Settle: policy.Settle{Header: "X-Cost"}}
		h := serving(t, store, set(t, p), httplimit.Config{NoResponse: true}, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", "5") })
		get(h, "/200", peer)
		if got := charged(t, memory, "p", "9/h"); got != 1 || verbs[weir.Take] != 1 || len(verbs) != 1 {
			t.Errorf("count %s: charged %d by %v, want 1 by a take", count, got, verbs)
		}
	}
}

// TestShadowCounts checks that a policy in shadow counts as it would if it were enforced.
func TestShadowCounts(t *testing.T) {
	store := fakestore.Memory(t)
	c := httplimit.Config{}
	events := observed(&c)
	h := serving(t, store, set(t,
		policy.Config{Name: "f", Mode: policy.Shadow, Limits: limits("2/h"), Count: policy.CountFailures},
		policy.Config{Name: "a", Mode: policy.Shadow, Limits: limits("2/h"), Count: policy.CountAll},
	), c, status)
	for _, path := range []string{"/200", "/500", "/200", "/500", "/200"} {
		get(h, path, peer)
	}
	want := []string{
		"f admitted shadow", "a admitted shadow", "f admitted shadow", "a admitted shadow", "f admitted shadow", "a denied shadow",
		"f admitted shadow", "a denied shadow", "f denied shadow", "a denied shadow",
	}
	if got := events(); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "a|11:203.0.113.7", Limit: fakestore.PolicyLimit(t, "2/h"), N: 1})
	if err != nil || d.RetryAfter <= 100*time.Minute {
		t.Errorf("a is admitted in %v, %v, want in two hours, which the denials took", d.RetryAfter, err)
	}
}

// TestUnsettled checks that a cost that cannot be charged is reported once for each policy,
// and does not change the response.
func TestUnsettled(t *testing.T) {
	store := fakestore.Memory(t)
	failing := fakestore.Store{
		One: fakestore.Failing(weir.ErrUnavailable).Do,
		All: store.DoAll,
	}
	var events []enforce.Event
	h := serving(t, failing, set(t,
		policy.Config{Name: "a", Limits: limits("9/h", "99/24h"), Count: policy.CountFailures},
		policy.Config{Name: "b", Limits: limits("9/h"), Settle: policy.Settle{Header: "X-Cost"}},
	), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) }}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cost", "7")
		w.WriteHeader(500)
	})
	if w := get(h, "/", peer); w.Code != 500 || len(events) != 4 {
		t.Fatalf("%d and %d events %+v, want 500 and 4", w.Code, len(events), events)
	}
	for i, want := range []struct {
		name string
		cost int64
	}{{"a", 1}, {"b", 7}} {
		if e := events[2+i]; e.Policy.Name() != want.name || e.Outcome != enforce.Unsettled || e.Cost != want.cost || !errors.Is(e.Err, weir.ErrUnavailable) {
			t.Errorf("event %d = %+v, want %s unsettled at %d", i, e, want.name, want.cost)
		}
	}
}
