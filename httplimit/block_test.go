package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestBlock checks the responses of policies that block requests, also while the store is
// unavailable and the policy would admit requests then.
func TestBlock(t *testing.T) {
	on := policy.OnDenied{Wait: time.Minute, Status: 403}
	ps := set(t,
		policy.Config{Name: "all", Limits: limits("100/s"), Count: policy.CountAll, OnStoreError: policy.Open},
		policy.Config{Name: "shadow", Block: true, Mode: policy.Shadow},
		policy.Config{Name: "ips", Unlimited: true, OnDenied: on, OnStoreError: policy.Open, Overrides: []policy.Override{{Key: []string{"203.0.113.7"}, Block: true}}},
	)
	outcomes := map[string]enforce.Outcome{}
	c := httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
		if !e.Outcome.AtEnd() {
			outcomes[e.Policy.Name()] = e.Outcome
		}
	}}
	for name, store := range map[string]weir.Store{"memory": fakestore.Memory(t), "unavailable": fakestore.Failing(errors.New("down"))} {
		clear(outcomes)
		h := wrap(t, store, ps, c)
		w := get(h, "/", peer)
		retry, limited := w.Header()["Retry-After"]
		if want := `"violated-policies":["ips"]`; w.Code != 403 || limited || w.Header().Get("RateLimit") != "" || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: blocked request: %d, Retry-After %v, RateLimit %s, %s, want 403 with neither, and %s", name, w.Code, retry, w.Header().Get("RateLimit"), w.Body, want)
		}
		if outcomes["ips"] != enforce.Denied || outcomes["all"] != enforce.Held {
			t.Errorf("%s: outcomes are %v, want ips denied and all held", name, outcomes)
		}
		if w := get(h, "/", "203.0.113.8:1"); w.Code != 200 || outcomes["shadow"] != enforce.Denied {
			t.Errorf("%s: a key without override: %d, outcomes %v, want 200 and a denial in shadow mode", name, w.Code, outcomes)
		}
	}
}

// TestExemptPreflight checks that CORS preflight requests are admitted without a charge if Config
// exempts them, and that other OPTIONS requests are charged.
func TestExemptPreflight(t *testing.T) {
	for _, exempt := range []bool{false, true} {
		h := wrap(t, fakestore.Memory(t), set(t, policy.Config{Name: "api", Limits: limits("1/h")}), httplimit.Config{ExemptPreflight: exempt})
		send := func(method, origin string) int {
			r := httptest.NewRequest(method, "/", nil)
			r.Header.Set("Origin", origin)
			r.Header.Set("Access-Control-Request-Method", "PUT")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		var got []int
		for range 3 {
			got = append(got, send("OPTIONS", "https://a.example"))
		}
		got = append(got, send("PUT", "https://a.example"), send("OPTIONS", ""))
		want := []int{200, 429, 429, 429, 429}
		if exempt {
			want = []int{200, 200, 200, 200, 429}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ExemptPreflight %t: statuses are %v, want %v", exempt, got, want)
		}
	}
}
