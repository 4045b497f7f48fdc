package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/policy"
)

// said returns the fields of a response that the steps of a test compare.
func said(t *testing.T, body []byte) string {
	t.Helper()
	var a struct {
		OK, Never, Replayed bool
		Granted, Remaining  int64
		RetryAfter          json.Number `json:"retry_after"`
		ResetAfter          json.Number `json:"reset_after"`
		Status              int
		Field               string
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	switch {
	case a.Status != 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, a.Field))
	case a.Replayed:
		return fmt.Sprintf("replayed granted %d remaining %d", a.Granted, a.Remaining)
	case a.Never:
		return "never"
	case !a.OK:
		return fmt.Sprintf("denied remaining %d retry %s", a.Remaining, a.RetryAfter)
	}
	return fmt.Sprintf("ok granted %d remaining %d reset %s", a.Granted, a.Remaining, a.ResetAfter)
}

// TestMoreVerbs plays a sequence of verbs, with the clock moved between the lines.
func TestMoreVerbs(t *testing.T) {
	store, now := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	for i, step := range []struct {
		after int64 // s
		verb  string
		body  string
		want  string
	}{
		{0, "take_up_to", `{"key":"u","limit":"10/h","n":4}`, "ok granted 4 remaining 6 reset 1440"},
		{0, "take_up_to", `{"key":"u","limit":"10/h","n":9}`, "ok granted 6 remaining 0 reset 3600"},
		{0, "take_up_to", `{"key":"u","limit":"10/h","n":9}`, "denied remaining 0 retry 360"},
		{0, "charge", `{"key":"c","limit":"10/h","n":15}`, "ok granted 15 remaining 0 reset 5400"},
		{0, "take", `{"key":"c","limit":"10/h"}`, "denied remaining 0 retry 2160"},
		{0, "charge", `{"key":"c","limit":"10/h","n":0}`, "ok granted 0 remaining 0 reset 5400"},

		{0, "reserve", `{"key":"r","limit":"10/h","n":4,"id":"a","ttl":60}`, "ok granted 4 remaining 6 reset 60"},
		{0, "reserve", `{"key":"r","limit":"10/h","n":4,"id":"a","ttl":60}`, "ok granted 4 remaining 6 reset 60"},
		{0, "reserve", `{"key":"r","limit":"10/h","n":7,"id":"b","ttl":60}`, "denied remaining 6 retry 60"},
		{0, "reserve", `{"key":"r","limit":"10/h","n":11,"id":"b","ttl":60}`, "never"},
		{0, "commit", `{"key":"r","limit":"10/h","n":1,"id":"a"}`, "ok granted 1 remaining 9 reset 360"},
		{0, "commit", `{"key":"r","limit":"10/h","n":3,"id":"a"}`, "ok granted 1 remaining 9 reset 360"},
		{0, "commit", `{"key":"r","limit":"10/h","n":1,"id":"b"}`, "409"},
		{0, "cancel", `{"key":"other","limit":"10/h","id":"a"}`, "409"},
		{0, "reserve", `{"key":"r","limit":"10/h","n":4,"id":"c","ttl":0.5}`, "ok granted 4 remaining 5 reset 360"},
		{0, "cancel", `{"key":"r","limit":"10/h","id":"c"}`, "ok granted 0 remaining 9 reset 360"},
		{0, "reserve", `{"key":"r","limit":"10/h","id":"d","ttl":10}`, "ok granted 1 remaining 8 reset 360"},
		{0, "commit", `{"key":"r","limit":"10/h","n":12,"id":"d"}`, "ok granted 12 remaining 0 reset 4680"},

		{0, "reserve", `{"key":"t","limit":"10/h","n":5,"id":"late","ttl":9.999999}`, "ok granted 5 remaining 5 reset 9.999999"},
		{10, "commit", `{"key":"t","limit":"10/h","n":5,"id":"late"}`, "409"},
		{0, "peek", `{"key":"t","limit":"10/h","n":10}`, "ok granted 0 remaining 10 reset 0"},

		// Several limits: one id on each, settled together.
		{0, "reserve", `{"key":"m","limits":["10/h","20/h"],"n":4,"id":"x","ttl":60}`, "ok granted 4 remaining 6 reset 60"},
		{0, "commit", `{"key":"m","limits":["10/h","20/h"],"n":2,"id":"x"}`, "ok granted 2 remaining 8 reset 720"},
		{0, "peek", `{"key":"m","limit":"20/h"}`, "ok granted 0 remaining 18 reset 360"},
		{0, "reserve", `{"key":"m","limit":"10/h","n":1,"id":"y","ttl":60}`, "ok granted 1 remaining 7 reset 720"},
		{0, "commit", `{"key":"m","limits":["10/h","20/h"],"n":1,"id":"y"}`, "409"},
		{0, "cancel", `{"key":"m","limit":"10/h","id":"y"}`, "ok granted 0 remaining 8 reset 720"}, // it was not settled by the line before
	} {
		*now += step.after * second
		w := ask(a, "POST", "/v1/"+step.verb, step.body)
		if got := said(t, w.Body.Bytes()); got != step.want {
			t.Errorf("step %d: %s %s = %q, want %q\n%s", i+1, step.verb, step.body, got, step.want, w.Body)
		}
	}
}

// TestReturnAt checks that a return with a time returns what was charged then, and
// nothing of a window that has passed.
func TestReturnAt(t *testing.T) {
	store, now := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	take := func() string {
		var m struct{ At string }
		if err := json.Unmarshal(ask(a, "POST", "/v1/take", `{"key":"k","limit":"5/h fixed_window","n":2}`).Body.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m.At
	}
	giveBack := func(at, want string) {
		t.Helper()
		w := ask(a, "POST", "/v1/return", fmt.Sprintf(`{"key":"k","limit":"5/h fixed_window","n":2,"at":%q}`, at))
		if got := said(t, w.Body.Bytes()); got != want {
			t.Errorf("return at %s = %q, want %q", at, got, want)
		}
	}
	first := take()
	*now += 1800*second + 1
	second1 := take()
	giveBack(second1, "ok granted 0 remaining 3 reset 1799.999999")
	*now += 3600 * second
	take()
	giveBack(first, "ok granted 0 remaining 3 reset 3600")
	giveBack("2023-11-15T00:13:20.5+01:00", "ok granted 0 remaining 3 reset 3600") // another instant, in another zone
}

// TestPolicyVerbs checks every verb with a policy, with the policy's cost by default.
func TestPolicyVerbs(t *testing.T) {
	store, _ := frozen(t)
	p, err := policy.New(policy.Config{
		Name: "p", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Cost: 2, Mode: policy.Shadow,
		Limits: []weir.Limit{weir.MustLimit("10/h"), weir.MustLimit("100/24h")},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	a := api(t, httpapi.Config{Store: store, Policies: set})
	for i, step := range []struct{ verb, body, want string }{
		{"take", `{"policy":"p","key":"192.0.2.1"}`, "ok granted 2 remaining 8 reset 720"},
		{"reserve", `{"policy":"p","key":["192.0.2.1"],"id":"a","ttl":60}`, "ok granted 2 remaining 6 reset 720"},
		{"commit", `{"policy":"p","key":"192.0.2.1","id":"a","n":1}`, "ok granted 1 remaining 7 reset 1080"},
		{"charge", `{"policy":"p","key":"192.0.2.1"}`, "ok granted 2 remaining 5 reset 1800"},
		{"return", `{"policy":"p","key":"192.0.2.1"}`, "ok granted 0 remaining 7 reset 1080"},
		{"take_up_to", `{"policy":"p","key":"192.0.2.1","n":50}`, "ok granted 7 remaining 0 reset 3600"},
		{"cancel", `{"policy":"p","key":"192.0.2.1","id":"none"}`, "409"},
		{"reset", `{"policy":"p","key":"192.0.2.1"}`, "ok granted 0 remaining 10 reset 0"},
		{"peek", `{"policy":"p","key":"192.0.2.1","n":0}`, "ok granted 0 remaining 10 reset 0"},
	} {
		w := ask(a, "POST", "/v1/"+step.verb, step.body)
		if got := said(t, w.Body.Bytes()); got != step.want {
			t.Errorf("step %d: %s %s = %q, want %q\n%s", i+1, step.verb, step.body, got, step.want, w.Body)
		}
	}
}

func TestBadVerbs(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	const q = `"key":"k","limit":"1/s"`
	for _, test := range []struct{ verb, body, field, value, expected string }{
		{"take", `{` + q + `,"id":"a"}`, "id", "a value", "no id: take has none"},
		{"take", `{` + q + `,"ttl":1}`, "ttl", "a value", "take has none"},
		{"take", `{` + q + `,"at":"2026-01-02T15:04:05Z"}`, "at", "a value", "take has none"},
		{"peek", `{` + q + `,"at":"2026-01-02T15:04:05Z"}`, "at", "a value", "peek has none"},
		{"cancel", `{` + q + `,"id":"a","n":1}`, "n", "a value", "cancel has none"},
		{"commit", `{` + q + `,"id":"a","n":1,"ttl":1}`, "ttl", "a value", "commit has none"},
		{"commit", `{` + q + `,"id":"a"}`, "n", "nothing", "the number of tokens used"},
		{"commit", `{` + q + `,"n":1}`, "id", "nothing", "the ID of the reservation"},
		{"cancel", `{` + q + `}`, "id", "nothing", "the ID of the reservation"},
		{"reserve", `{` + q + `,"ttl":1}`, "id", "nothing", "the ID of the reservation"},
		{"reserve", `{` + q + `,"id":"a"}`, "ttl", "nothing", "the seconds"},
		{"reserve", `{` + q + `,"id":"a","ttl":1,"n":0}`, "n", "0", "at least 1"},
		{"reserve", `{` + q + `,"id":"a","ttl":1,"n":-1}`, "n", "-1", "whole number"},
		{"reserve", `{` + q + `,"id":"","ttl":1}`, "id", `""`, "1 to 256 bytes"},
		{"reserve", `{` + q + `,"id":7,"ttl":1}`, "id", "7", "a string"},
		{"reserve", `{` + q + `,"id":"` + strings.Repeat("é", 129) + `","ttl":1}`, "id", "258 bytes", "1 to 256 bytes"},
		{"reserve", `{` + q + `,"id":"a","ttl":0}`, "ttl", "0", "0.000001 to 2592000"},
		{"reserve", `{` + q + `,"id":"a","ttl":-1}`, "ttl", "-1", "0.000001"},
		{"reserve", `{` + q + `,"id":"a","ttl":0.0000001}`, "ttl", "0.0000001", "up to 6 decimals"},
		{"reserve", `{` + q + `,"id":"a","ttl":1e3}`, "ttl", "1e3", "a number of seconds"},
		{"reserve", `{` + q + `,"id":"a","ttl":1.5e3}`, "ttl", "1.5e3", "a number of seconds"},
		{"reserve", `{` + q + `,"id":"a","ttl":2592001}`, "ttl", "2592001", "to 2592000"},
		{"reserve", `{` + q + `,"id":"a","ttl":99999999999999999999}`, "ttl", "9999", "to 2592000"},
		{"reserve", `{` + q + `,"id":"a","ttl":9223372036}`, "ttl", "9223372036", "to 2592000"},
		{"reserve", `{` + q + `,"id":"a","ttl":"30s"}`, "ttl", `"30s"`, "a number of seconds"},
		{"reserve", `{` + q + `,"id":"a","ttl":null}`, "ttl", "null", "a number of seconds"},
		{"return", `{` + q + `,"at":"yesterday"}`, "at", "yesterday", `the "at" of a response`},
		{"return", `{` + q + `,"at":1700000000}`, "at", "1700000000", `the "at"`},
		{"return", `{` + q + `,"at":"1969-12-31T23:59:59Z"}`, "at", "1969", `the "at"`},
		{"return", `{` + q + `,"at":"0000-01-01T00:00:00Z"}`, "at", "0000", `the "at"`},
	} {
		w := ask(a, "POST", "/v1/"+test.verb, test.body)
		var p struct{ Field, Value, Expected string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || p.Field != test.field || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) || w.Body.Len() > 1000 {
			t.Errorf("%s %s = %d %s, want 400 with %q, %q, %q", test.verb, test.body, w.Code, w.Body, test.field, test.value, test.expected)
		}
	}
}

// TestExtra checks that extra handlers are mounted beside the API, and cannot replace its
// paths.
func TestExtra(t *testing.T) {
	store, _ := frozen(t)
	teapot := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) })
	a := api(t, httpapi.Config{Store: store, Auth: teapot, Extra: map[string]http.Handler{"POST /json": teapot, "/any": teapot}})
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/json", 418}, {"PUT", "/any", 418}, {"GET", "/v1/auth", 418}, {"DELETE", "/v1/auth", 418}, {"POST", "/v1/take", 400},
	} {
		if w := ask(a, test.method, test.path, ""); w.Code != test.status {
			t.Errorf("%s %s = %d, want %d", test.method, test.path, w.Code, test.status)
		}
	}
	// A proxy hands on what its client sent, and that may be a page.
	for _, method := range []string{"GET", "POST"} {
		if w := askWith(a, method, "/v1/auth", "", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"); w.Code != 418 {
			t.Errorf("%s /v1/auth for a page = %d, want 418", method, w.Code)
		}
		if w := askWith(a, "POST", "/json", "", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("%s /json by a page = %d, want 403", method, w.Code)
		}
	}
	for _, pattern := range []string{"POST /v1/take", "/v1/take", "", "POST json", "/{a}/{a}"} {
		if _, err := httpapi.New(httpapi.Config{Store: store, Extra: map[string]http.Handler{pattern: teapot}}); err == nil || !strings.HasPrefix(err.Error(), "httpapi: extra") {
			t.Errorf("New with %q = %v, want an error", pattern, err)
		}
	}
	if _, err := httpapi.New(httpapi.Config{}); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("New without a store = %v", err)
	}
}
