package httpapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// broken is a store that returns an error.
type broken struct{ err error }

func (s broken) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, s.err
}

func (s broken) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, s.err
}

// TestObserve checks that each decision that consumes tokens is reported once for each policy, and
// that no other request is.
func TestObserve(t *testing.T) {
	address := []policy.KeyPart{{Source: policy.ClientIP}}
	set := setOf(t,
		policy.Config{Name: "login", Key: address, Limits: []weir.Limit{weir.MustLimit("2/h"), weir.MustLimit("5/24h")}},
		policy.Config{Name: "api", Key: address, Limits: []weir.Limit{weir.MustLimit("9/h")}, Mode: policy.Shadow},
		policy.Config{Name: "closed", Key: address, Block: true},
		policy.Config{Name: "free", Key: address, Unlimited: true},
	)
	store, _ := frozen(t)
	var got []string
	observe := func(e enforce.Event) {
		name := "-"
		if e.Policy != nil {
			name = e.Policy.Name()
		}
		if len(got) > 0 && e.Took != 0 {
			t.Errorf("%s: took %v after %q, want the time of a decision once", name, e.Took, got)
		}
		got = append(got, fmt.Sprintf("%s %s %s %d", name, e.Outcome, e.Key, e.Cost))
	}
	a := api(t, httpapi.Config{Store: store, Policies: set, Observe: observe})
	const login, key = `{"policy":"login","key":"192.0.2.1"}`, "|9:192.0.2.1"
	for _, step := range []struct{ path, body, want string }{
		{"take", login, "login admitted login" + key + " 1"},
		{"peek", login, ""},
		{"take", `{"key":"a","limit":"1/h"}`, "- admitted  0"},
		{"take", `{"key":"a","limits":["1/h","2/h"]}`, "- denied  0"},
		{"take", `{"policy":"login","key":"192.0.2.1","n":7}`, "login denied login" + key + " 7"},
		{"take", `{"policy":"unknown","key":"192.0.2.1"}`, ""},
		{"take", `{"policy":"closed","key":"192.0.2.1"}`, "closed denied closed" + key + " 1"},
		{"take", `{"policy":"free","key":"192.0.2.1"}`, ""},
		{"reserve", `{"policy":"api","key":"192.0.2.1","id":"r","ttl":9}`, "api admitted api" + key + " 1"},
		{"commit", `{"policy":"api","key":"192.0.2.1","id":"r"}`, ""},
		{"commit", `{"policy":"api","key":"192.0.2.1","id":"none"}`, ""},
		{"take_up_to", `{"policy":"api","key":"192.0.2.1","n":20}`, "api admitted api" + key + " 20"},
		{"batch", `{"requests":[{"verb":"take","policy":"login","key":"192.0.2.1"},{"verb":"take","policy":"api","key":"192.0.2.1"},` +
			`{"verb":"take","key":"b","limit":"1/h"},{"verb":"take","key":"c","limit":"1/h"},{"verb":"peek","policy":"api","key":"192.0.2.2"}]}`,
			"login held login" + key + " 1, api denied api" + key + " 1, - denied  0"},
		{"batch", `{"requests":[{"verb":"take","policy":"login","key":"192.0.2.1"},{"verb":"take","policy":"closed","key":"192.0.2.1"}]}`,
			"login held login" + key + " 1, closed denied closed" + key + " 1"},
	} {
		got = nil
		w := ask(a, "POST", "/v1/"+step.path, step.body)
		if text := strings.Join(got, ", "); text != step.want {
			t.Errorf("%s %s reports\n%q, want\n%q (%d %s)", step.path, step.body, text, step.want, w.Code, w.Body)
		}
	}
	got = nil
	const once = `{"policy":"login","key":"192.0.2.9"}`
	for range 3 {
		askWith(a, "POST", "/v1/take", once, "Idempotency-Key", "k")
	}
	if len(got) != 1 {
		t.Errorf("three requests with one idempotency key report %q, want one decision", got)
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{weir.ErrUnavailable, "login failed_closed login" + key + " 1; - failed_closed  0"},
		{weir.ErrOverloaded, "login overloaded login" + key + " 1; - overloaded  0"},
		{weir.ErrInvalid, "; "},
	} {
		got = nil
		a := api(t, httpapi.Config{Store: broken{tc.err}, Policies: set, Observe: observe})
		ask(a, "POST", "/v1/take", login)
		text := strings.Join(got, ", ")
		got = nil
		ask(a, "POST", "/v1/take", `{"key":"a","limit":"1/h"}`)
		if text += "; " + strings.Join(got, ", "); text != tc.want {
			t.Errorf("%v reports %q, want %q", tc.err, text, tc.want)
		}
	}
}
