package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func TestLocal(t *testing.T) {
	failing := fakestore.Failing(fmt.Errorf("fake: %w", weir.ErrUnavailable))
	type answer struct {
		status   int
		degraded string
		events   []string
	}
	for _, tc := range []struct {
		name    string
		modes   []policy.FailMode // of p0, p1, …, of which the last admits once
		answers []answer          // one after the other
	}{
		{"local", []policy.FailMode{policy.Local}, []answer{
			{200, "local", []string{"p0 admitted local error"}},
			{429, "local", []string{"p0 denied local error"}},
		}},
		{"two of them", []policy.FailMode{policy.Local, policy.Local}, []answer{
			{200, "local", []string{"p0 admitted local error", "p1 admitted local error"}},
			{429, "local", []string{"p0 held local error", "p1 denied local error"}},
		}},
		{"with an open one", []policy.FailMode{policy.Open, policy.Local}, []answer{
			{200, "local", []string{"p0 failed_open error", "p1 admitted local error"}},
			{429, "local", []string{"p0 held error", "p1 denied local error"}},
		}},
		{"with a closed one", []policy.FailMode{policy.Closed, policy.Local}, []answer{
			{503, "closed", []string{"p0 failed_closed error", "p1 failed_closed error"}},
		}},
		{"closed last", []policy.FailMode{policy.Local, policy.Open, policy.Closed}, []answer{
			{503, "closed", []string{"p0 failed_closed error", "p1 failed_closed error", "p2 failed_closed error"}},
		}},
	} {
		var cs []policy.Config
		for i, mode := range tc.modes {
			limit := "5/h"
			if i == len(tc.modes)-1 {
				limit = "1/h"
			}
			cs = append(cs, policy.Config{Name: fmt.Sprint("p", i), Limits: limits(limit), OnStoreError: mode})
		}
		c := httplimit.Config{Options: enforce.Options{Local: fakestore.Memory(t)}}
		events := observed(&c)
		h := wrap(t, failing, set(t, cs...), c)
		for step, want := range tc.answers {
			w := get(h, "/", peer)
			got := events()
			if w.Code != want.status || w.Header().Get(httplimit.DegradedField) != want.degraded || !slices.Equal(got, want.events) {
				t.Errorf("%s, step %d: %d %q %q, want %d %q %q", tc.name, step, w.Code, w.Header().Get(httplimit.DegradedField), got, want.status, want.degraded, want.events)
			}
			if got := w.Header().Get("RateLimit-Policy"); strings.Contains(got, "p0") == (tc.modes[0] == policy.Open || want.status == 503) && len(tc.modes) > 1 {
				t.Errorf("%s, step %d: RateLimit-Policy %s reports the wrong policies", tc.name, step, got)
			}
			if retry := w.Header().Get("Retry-After"); want.status == 429 && retry != "3600" {
				t.Errorf("%s, step %d: Retry-After %q, want 3600", tc.name, step, retry)
			}
		}
		if got := charged(t, c.Local, "p0", "5/h"); len(tc.modes) == 2 && tc.modes[0] == policy.Local && got != 1 {
			t.Errorf("%s: p0 took %d locally, want 1: a denial takes from none", tc.name, got)
		}
	}
}

// TestLocalDecidesNothing checks that a request is refused if Local makes no decision.
func TestLocalDecidesNothing(t *testing.T) {
	var events []enforce.Event
	h := wrap(t, fakestore.Failing(weir.ErrUnavailable), set(t, policy.Config{Name: "p", Limits: limits("1/s"), OnStoreError: policy.Local}), httplimit.Config{
		Options: enforce.Options{Local: fakestore.Failing(weir.ErrFull)}, Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) },
	})
	if w := get(h, "/", peer); w.Code != 503 || len(events) != 1 || events[0].Outcome != enforce.FailedClosed ||
		!errors.Is(events[0].Err, weir.ErrFull) || !errors.Is(events[0].Err, weir.ErrUnavailable) {
		t.Errorf("%d and %+v, want 503 and failed_closed with both errors", w.Code, events)
	}
}

// TestLocalHoldsSlots checks that what Local reserved goes back to Local.
func TestLocalHoldsSlots(t *testing.T) {
	local := fakestore.Memory(t)
	failed := 0
	store := fakestore.Store{One: func(_ context.Context, r weir.Request) (weir.Decision, error) {
		if r.Verb == weir.Reserve {
			failed++
		}
		return weir.Decision{}, weir.ErrUnavailable
	}}
	p := policy.Config{Name: "p", Limits: limits("1 concurrency lease 1m"), OnStoreError: policy.Local}
	var inner int
	var h http.Handler
	h = serving(t, store, set(t, p), httplimit.Config{Options: enforce.Options{Local: local}}, func(http.ResponseWriter, *http.Request) {
		if inner == 0 {
			inner = 1
			inner = get(h, "/", peer).Code
		}
	})
	for step := range 3 {
		if w := get(h, "/", peer); w.Code != 200 {
			t.Errorf("step %d: %d, want 200", step, w.Code)
		}
	}
	if inner != 429 || failed != 4 {
		t.Errorf("a request within another = %d, and the store was asked %d times, want 429 and 4", inner, failed)
	}
}

func TestShadowLocal(t *testing.T) {
	c := httplimit.Config{Options: enforce.Options{Local: fakestore.Memory(t)}}
	events := observed(&c)
	h := wrap(t, fakestore.Failing(weir.ErrUnavailable), set(t, policy.Config{Name: "p", Mode: policy.Shadow, Limits: limits("1/h"), OnStoreError: policy.Local}), c)
	for range 2 {
		if w := get(h, "/", peer); w.Code != 200 || w.Header().Get(httplimit.DegradedField) != "" {
			t.Errorf("%d %q, want 200 without a word of the shadow", w.Code, w.Header().Get(httplimit.DegradedField))
		}
	}
	if got, want := events(), []string{"p admitted shadow local error", "p denied shadow local error"}; !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}
