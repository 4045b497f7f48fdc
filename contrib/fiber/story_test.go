package weirfiber_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A step is a request of a story, after some time.
type step struct {
	after  time.Duration
	method string // GET if empty
	path   string
	lines  []string // of the request's header
	status int
}

// stories are told to the middleware of net/http and to the adapter: what they answer
// has to be the same.
var stories = []struct {
	name     string
	config   httplimit.Config
	policies []policy.Config
	steps    []step
}{
	{
		name:     "denied, and admitted again",
		policies: []policy.Config{{Name: "p", Limits: limits("2/m")}},
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
		name:     "older fields and several limits",
		config:   httplimit.Config{Fields: httplimit.Draft06},
		policies: []policy.Config{{Name: "p", Limits: limits("1/s", "2/m")}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 429}, {after: time.Second, path: "/text", status: 200}, {after: time.Second, path: "/text", status: 429}},
	},
	{
		name: "a body of its own",
		policies: []policy.Config{{Name: "p", Limits: limits("1/m"), OnDenied: policy.OnDenied{
			Status: 503, Body: `{"later":true}`, ContentType: "application/json", Headers: map[string]string{"X-Why": "busy"},
		}}},
		steps: []step{{path: "/text", status: 200}, {path: "/text", status: 503}},
	},
	{
		name:     "a redirect",
		policies: []policy.Config{{Name: "p", Limits: limits("1/m"), OnDenied: policy.OnDenied{Redirect: "/queue"}}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 303}},
	},
	{
		name: "paths and keys",
		policies: []policy.Config{{
			Name: "p", Match: policy.Match{Paths: []string{"/users/{id}", "/text"}}, Limits: limits("1/m"),
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
		name:     "a client that says it is another",
		policies: []policy.Config{{Name: "p", Limits: limits("1/m")}},
		steps: []step{
			{path: "/text", lines: []string{"X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1"}, status: 200},
			{path: "/text", lines: []string{"X-Forwarded-For: 192.0.2.2", "X-Real-IP: 192.0.2.2"}, status: 429},
		},
	},
	{
		name:     "shadow",
		policies: []policy.Config{{Name: "p", Limits: limits("1/m"), Mode: policy.Shadow}},
		steps:    []step{{path: "/text", status: 200}, {path: "/text", status: 200}},
	},
	{
		name:     "failures count",
		policies: []policy.Config{{Name: "p", Limits: limits("2/m"), Count: policy.CountFailures}},
		steps: []step{
			{path: "/text", status: 200}, {path: "/text", status: 200}, {path: "/text", status: 200},
			{path: "/status/401", status: 401}, {path: "/text", status: 200}, {path: "/status/500", status: 500},
			{path: "/text", status: 429},
		},
	},
	{
		name:     "successes count",
		policies: []policy.Config{{Name: "p", Limits: limits("1/m"), Count: policy.CountSuccesses}},
		steps: []step{
			{path: "/status/401", status: 401}, {path: "/status/404", status: 404}, {path: "/status/204", status: 204}, {path: "/text", status: 429},
		},
	},
	{
		name:     "the cost is in a header",
		policies: []policy.Config{{Name: "p", Limits: limits("10/m"), Settle: policy.Settle{Header: "X-Cost"}}},
		steps:    []step{{path: "/json", status: 200}, {path: "/text", status: 200}},
	},
	{
		name:     "the cost is in the body",
		policies: []policy.Config{{Name: "p", Limits: limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}}},
		steps:    []step{{path: "/json", status: 200}, {path: "/text", status: 200}, {path: "/events", status: 200}, {path: "/text", status: 429}},
	},
}

const (
	usage  = `{"usage":{"total":4}}`
	events = "data: {\"usage\":{\"total\":1}}\n\ndata: {\"usage\":{\"total\":6}}\n\n"
)

// plain is what routes is, for net/http.
func plain() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /text", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Cost", "7")
		_, _ = w.Write([]byte(usage))
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(events))
	})
	return mux
}

func routes(app *fiber.App) {
	app.Get("/text", func(c fiber.Ctx) error { return c.SendString("hello") })
	app.Get("/users/:id", func(fiber.Ctx) error { return nil })
	app.Get("/status/:code", func(c fiber.Ctx) error {
		code, _ := strconv.Atoi(c.Params("code"))
		c.Status(code)
		return nil
	})
	app.Get("/json", func(c fiber.Ctx) error {
		c.Set("X-Cost", "7")
		c.Set("Content-Type", "application/json; charset=utf-8")
		return c.SendString(usage)
	})
	app.Get("/events", func(c fiber.Ctx) error {
		c.Set("Content-Type", "text/event-stream")
		return c.SendStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString(events) })
	})
}

func TestSameAsPlain(t *testing.T) {
	names := []string{"Retry-After", "Location", "Cache-Control", "X-Content-Type-Options", "X-Why", httplimit.DegradedField}
	for _, f := range []httplimit.Fields{httplimit.DefaultFields, httplimit.Draft06} {
		names = append(names, f.Names()...)
	}
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			ours, advance := clocked(t)
			theirs, follow := clocked(t)
			url := served(t, limited(t, ours, story.config, story.policies...), routes)
			server := httptest.NewServer(limited(t, theirs, story.config, story.policies...).Wrap(plain()))
			t.Cleanup(server.Close)
			for i, s := range story.steps {
				advance(s.after)
				follow(s.after)
				if s.method == "" {
					s.method = "GET"
				}
				got, want := ask(t, s.method, url+s.path, s.lines...), ask(t, s.method, server.URL+s.path, s.lines...)
				if got.status != s.status || want.status != s.status {
					t.Fatalf("step %d: status %d, of net/http %d, want %d", i, got.status, want.status, s.status)
				}
				if got.body != want.body {
					t.Errorf("step %d: body %q, of net/http %q", i, got.body, want.body)
				}
				for _, name := range names {
					if g, w := got.header.Values(name), want.header.Values(name); !slices.Equal(g, w) {
						t.Errorf("step %d: %s: %q, of net/http %q", i, name, g, w)
					}
				}
				if denied := got.header.Get("Cache-Control") != ""; denied && got.header.Get("Content-Type") != want.header.Get("Content-Type") {
					t.Errorf("step %d: type %q, of net/http %q", i, got.header.Get("Content-Type"), want.header.Get("Content-Type"))
				}
			}
		})
	}
}

// What stops deciding: closed refuses, and says so.
func TestStoreIsGone(t *testing.T) {
	store, _ := clocked(t)
	if err := store.(interface{ Close() error }).Close(); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[policy.FailMode]int{policy.Open: 200, policy.Closed: 503} {
		m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("1/m"), OnStoreError: mode})
		a := ask(t, "GET", served(t, m, routes)+"/text")
		if a.status != want || a.header.Get(httplimit.DegradedField) != string(mode) {
			t.Errorf("%s: %d %q, want %d", mode, a.status, a.header.Get(httplimit.DegradedField), want)
		}
	}
}
