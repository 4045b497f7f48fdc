package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/policy"
)

// TestPoliciesWithoutLimits checks that policies that block a key or do not limit it are
// decisions, alone and in a batch, and never need the store.
func TestPoliciesWithoutLimits(t *testing.T) {
	store, _ := frozen(t)
	key := []policy.KeyPart{{Source: policy.Header, Name: "X"}}
	policies := setOf(t,
		policy.Config{Name: "closed", Block: true, Key: key, Overrides: []policy.Override{{Key: []string{"vip"}, Unlimited: true}}},
		policy.Config{Name: "open", Unlimited: true, Key: key, Overrides: []policy.Override{{Key: []string{"bad"}, Block: true}}},
		policy.Config{Name: "limited", Key: key, Limits: []weir.Limit{weir.MustLimit("10/h")}, Overrides: []policy.Override{{Key: []string{"bad"}, Block: true}, {Key: []string{"vip"}, Unlimited: true}}},
	)
	a := api(t, httpapi.Config{Store: store, Policies: policies})
	const no, yes = `{"ok":false,"limit":"0","capacity":0,"granted":0,"remaining":0,"never":true,"reset_after":0,"policy":"`, `{"ok":true,"limit":"unlimited","granted":`
	for i, step := range []struct{ verb, body, want string }{
		{"take", `{"policy":"closed","key":"a"}`, no + `closed","at":"`},
		{"take_up_to", `{"policy":"closed","key":"a"}`, no},
		{"peek", `{"policy":"limited","key":"bad"}`, no + `limited`},
		{"charge", `{"policy":"open","key":"bad"}`, no + `open`},
		{"reserve", `{"policy":"closed","key":"a","n":1,"id":"x","ttl":9}`, no},
		{"take", `{"policy":"closed","key":"a","n":0}`, no},
		{"return", `{"policy":"closed","key":"a"}`, `{"ok":true,"limit":"0","capacity":0,"granted":0,"remaining":0,"retry_after":0,"reset_after":0`},
		{"reset", `{"policy":"closed","key":"a"}`, `{"ok":true,"limit":"0"`},
		{"commit", `{"policy":"closed","key":"a","n":1,"id":"x"}`, `"status":409`},
		{"cancel", `{"policy":"closed","key":"a","id":"x"}`, `"status":409`},
		{"take", `{"policy":"closed","key":"vip","n":3}`, yes + `3,"retry_after":0,"reset_after":0,"policy":"closed","at":"`},
		{"take", `{"policy":"open","key":"a"}`, yes + `1,`},
		{"take_up_to", `{"policy":"limited","key":"vip","n":99}`, yes + `99,`},
		{"charge", `{"policy":"open","key":"a","n":7}`, yes + `7,`},
		{"peek", `{"policy":"open","key":"a"}`, yes + `0,`},
		{"return", `{"policy":"open","key":"a"}`, yes + `0,`},
		{"reserve", `{"policy":"open","key":"a","n":2,"id":"x","ttl":9}`, yes + `2,`},
		{"commit", `{"policy":"open","key":"a","n":1,"id":"x"}`, yes + `1,`},
		{"cancel", `{"policy":"open","key":"a","id":"x"}`, yes + `0,`},
		{"take", `{"policy":"limited","key":"a"}`, `{"ok":true,"limit":"10/h burst 10","capacity":10,"granted":1,"remaining":9,`},

		// A batch is all or nothing, and each request has its own decision.
		{"batch", `{"requests":[{"verb":"take","policy":"limited","key":"a"},{"verb":"take","policy":"closed","key":"a"}]}`,
			`{"ok":false,"limit":"0","capacity":0,"granted":0,"remaining":0,"never":true,"reset_after":0,"at":"2023-11-14T22:13:20.000000Z","results":[{"ok":true,"limit":"10/h burst 10","capacity":10,"granted":1,"remaining":8,`},
		{"peek", `{"policy":"limited","key":"a"}`, `{"ok":true,"limit":"10/h burst 10","capacity":10,"granted":0,"remaining":9,`},
		{"batch", `{"requests":[{"verb":"take","policy":"limited","key":"a"},{"verb":"take","policy":"open","key":"a"}]}`,
			`{"ok":true,"limit":"10/h burst 10","capacity":10,"granted":1,"remaining":8,`},
		{"batch", `{"requests":[{"verb":"take","policy":"closed","key":"vip"},{"verb":"take","policy":"open","key":"a"}]}`, yes + `1,`},
		{"batch", `{"requests":[{"verb":"take","policy":"open","key":"a"},{"verb":"cancel","policy":"closed","key":"a","id":"x"}]}`, `"status":409`},
	} {
		w := ask(a, "POST", "/v1/"+step.verb, step.body)
		if status := strings.Contains(step.want, `"status"`); !strings.Contains(w.Body.String(), step.want) || (w.Code == http.StatusOK) == status {
			t.Errorf("step %d: %s %s = %d %s, want %s", i+1, step.verb, step.body, w.Code, w.Body, step.want)
		}
		if !json.Valid(w.Body.Bytes()) || strings.Contains(step.want, "unlimited") && w.Header().Get("RateLimit") != "" {
			t.Errorf("step %d: %s, and RateLimit %q: want JSON, and no fields of a limit", i+1, w.Body, w.Header().Get("RateLimit"))
		}
	}
	// No reply of the store is needed, and an idempotency key changes nothing.
	seen := &recorder{}
	a = api(t, httpapi.Config{Store: seen, Policies: policies})
	for key, want := range map[string]string{"a": no, "vip": yes} {
		for range 2 {
			if w := askWith(a, "POST", "/v1/take", `{"policy":"closed","key":"`+key+`"}`, "Idempotency-Key", "k"); w.Code != 200 || !strings.HasPrefix(w.Body.String(), want) {
				t.Errorf("%s with an idempotency key: %d %s, want %s", key, w.Code, w.Body, want)
			}
		}
	}
	if len(seen.asked) > 0 {
		t.Errorf("the store decided %v, want nothing", seen.asked)
	}
}
