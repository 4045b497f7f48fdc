package limittest

import (
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A step is a request of a story.
type step struct {
	after  time.Duration
	method string // GET if empty
	path   string
	lines  []string // of the request's header
	status int
}

// stories are sent to the middleware of net/http and to the adapter. The responses must be
// equal.
var stories = []struct {
	name     string
	config   httplimit.Config
	policies []policy.Config
	steps    []step
}{
	{
		name:     "denied and admitted again",
		policies: []policy.Config{{Name: "p", Limits: Limits("2/m")}},
		steps: []step{
			{path: "/text", status: 200},
			{path: "/text", status: 200},
			{path: "/text", status: 429},
			{path: "/text", status: 429, method: "HEAD"},
			{after: 30 * time.Second, path: "/text", status: 200},
			{path: "/nowhere", status: 429},
		},
	},
	{
		name:     "fields of an older draft, several limits",
		config:   httplimit.Config{Fields: httplimit.Draft06},
		policies: []policy.Config{{Name: "p", Limits: Limits("1/s", "2/m")}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 429}, {after: time.Second, path: "/text", status: 200}, {after: time.Second, path: "/text", status: 429}},
	},
	{
		name: "custom body",
		policies: []policy.Config{{Name: "p", Limits: Limits("1/m"), OnDenied: policy.OnDenied{
			Status: 503, Body: `{"later":true}`, ContentType: "application/json", Headers: map[string]string{"X-Why": "busy"},
		}}},
		steps: []step{{path: "/text", status: 200}, {path: "/text", status: 503}},
	},
	{
		name:     "redirect",
		policies: []policy.Config{{Name: "p", Limits: Limits("1/m"), OnDenied: policy.OnDenied{Redirect: "/queue"}}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 303}},
	},
	{
		name: "paths and keys",
		policies: []policy.Config{{
			Name: "p", Match: policy.Match{Paths: []string{"/users/{id}", "/text"}}, Limits: Limits("1/m"),
			Key: []policy.KeyPart{{Source: policy.Path}, {Source: policy.Header, Name: "X-Key"}},
		}},
		steps: []step{
			{path: "/users/1", lines: []string{"X-Key: a"}, status: 200},
			{path: "/users/2", lines: []string{"X-Key: a"}, status: 429},
			{path: "/users/2", lines: []string{"X-Key: b"}, status: 200},
			{path: "/text", lines: []string{"X-Key: a"}, status: 200},
			{path: "/json", lines: []string{"X-Key: a"}, status: 200},
		},
	},
	{
		name:     "forged client address",
		policies: []policy.Config{{Name: "p", Limits: Limits("1/m")}},
		steps: []step{
			{path: "/text", lines: []string{"X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1"}, status: 200},
			{path: "/text", lines: []string{"X-Forwarded-For: 192.0.2.2", "X-Real-IP: 192.0.2.2"}, status: 429},
		},
	},
	{
		name:     "shadow",
		policies: []policy.Config{{Name: "p", Limits: Limits("1/m"), Mode: policy.Shadow}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 200}},
	},
	{
		name:     "count failures",
		policies: []policy.Config{{Name: "p", Limits: Limits("2/m"), Count: policy.CountFailures}},
		steps: []step{
			{path: "/text", status: 200}, {path: "/text", status: 200}, {path: "/text", status: 200},
			{path: "/status/401", status: 401}, {path: "/text", status: 200}, {path: "/status/500", status: 500},
			{path: "/text", status: 429},
		},
	},
	{
		name:     "count successes",
		policies: []policy.Config{{Name: "p", Limits: Limits("1/m"), Count: policy.CountSuccesses}},
		steps: []step{
			{path: "/status/401", status: 401}, {path: "/status/404", status: 404}, {path: "/status/204", status: 204}, {path: "/text", status: 429},
		},
	},
	{
		name:     "cost in a header",
		policies: []policy.Config{{Name: "p", Limits: Limits("10/m"), Settle: policy.Settle{Header: "X-Cost"}}},
		steps:    []step{{path: "/json", status: 200}, {path: "/text", status: 200}},
	},
	{
		name:     "cost in the body",
		policies: []policy.Config{{Name: "p", Limits: Limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}}},
		steps:    []step{{path: "/json", status: 200}, {path: "/text", status: 200}, {path: "/events", status: 200}, {path: "/text", status: 429}},
	},
}

// event returns an event of a stream that reports a total cost.
func event(total string) string { return "data: {\"usage\":{\"total\":" + total + "}}\n\n" }

// routes returns the routes that the stories use.
func routes() []Endpoint {
	of := func(path string, r Response) Endpoint {
		return Endpoint{Method: "GET", Path: path, Handle: func() Response { return r }}
	}
	text := of("/text", Response{Header: map[string]string{"Content-Type": "text/plain; charset=utf-8"}, Body: "hello"})
	head := text
	head.Method = "HEAD"
	return []Endpoint{
		text, head,
		of("/users/1", Response{}), of("/users/2", Response{}),
		of("/status/401", Response{Status: 401}), of("/status/404", Response{Status: 404}),
		of("/status/204", Response{Status: 204}), of("/status/500", Response{Status: 500}),
		of("/json", Response{Header: map[string]string{"Content-Type": "application/json; charset=utf-8", "X-Cost": "7"}, Body: `{"usage":{"total":4}}`}),
		of("/events", Response{Header: map[string]string{"Content-Type": "text/event-stream"}, Events: []string{event("1"), event("6")}, Flushed: func() {}}),
	}
}

// testStories compares the adapter with net/http.
func testStories(t *testing.T, a Adapter) {
	names := []string{"Retry-After", "Location", "Cache-Control", "X-Content-Type-Options", "X-Why", httplimit.DegradedField}
	for _, f := range []httplimit.Fields{httplimit.DefaultFields, httplimit.Draft06} {
		names = append(names, f.Names()...)
	}
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			var urls [2]string
			var advance [2]func(time.Duration)
			for i, serve := range []func(testing.TB, App) string{a.Serve, serveHTTP} {
				store, adv := Store(t)
				urls[i] = serve(t, App{Limit: Middleware(t, store, story.config, story.policies...), Endpoints: routes()})
				advance[i] = adv
			}
			for i, s := range story.steps {
				if s.method == "" {
					s.method = "GET"
				}
				advance[0](s.after)
				advance[1](s.after)
				got, want := Do(t, s.method, urls[0]+s.path, s.lines...), Do(t, s.method, urls[1]+s.path, s.lines...)
				if got.Status != s.status || want.Status != s.status {
					t.Fatalf("step %d: status %d, of net/http %d, want %d", i, got.Status, want.Status, s.status)
				}
				if got.Body != want.Body {
					t.Errorf("step %d: body %q, of net/http %q", i, got.Body, want.Body)
				}
				for _, name := range names {
					if g, w := got.Header.Values(name), want.Header.Values(name); !slices.Equal(g, w) {
						t.Errorf("step %d: %s: %q, of net/http %q", i, name, g, w)
					}
				}
				if denied := got.Header.Get("Cache-Control") != ""; denied && got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
					t.Errorf("step %d: type %q, of net/http %q", i, got.Header.Get("Content-Type"), want.Header.Get("Content-Type"))
				}
			}
		})
	}
}
