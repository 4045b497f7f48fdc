package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

const second = int64(1_000_000)

func frozen(t testing.TB) (weir.Store, *int64) {
	t.Helper()
	now := 1_700_000_000 * second
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, &now
}

func setOf(t testing.TB, configs ...policy.Config) *policy.Set {
	t.Helper()
	var all []*policy.Policy
	for _, c := range configs {
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	set, err := policy.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func limits(texts ...string) (ls []weir.Limit) {
	for _, s := range texts {
		ls = append(ls, weir.MustLimit(s))
	}
	return ls
}

// A failingCost is a cost expression that always fails.
type failingCost struct{}

func (failingCost) Eval(policy.Attributes) (int64, error) { return 0, errors.New("no such key") }
func (failingCost) String() string                        { return "cost" }

// every returns policies of every kind.
func every(t testing.TB) *policy.Set {
	ip := []policy.KeyPart{{Source: policy.ClientIP}}
	return setOf(t,
		policy.Config{Name: "api", Match: policy.Match{Paths: []string{"/api/*"}}, Key: ip, Limits: limits("10/s burst 20", "50/h"), Cost: 2, Candidate: limits("2/s")},
		policy.Config{Name: "login", Match: policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}}, Key: ip, Limits: limits("5/m"), OnDenied: policy.OnDenied{Status: 503}},
		policy.Config{Name: "hosts", Match: policy.Match{Hosts: []string{"shop.example"}}, Key: ip, Limits: limits("5/m")},
		policy.Config{Name: "plans", Match: policy.Match{Headers: map[string][]string{"X-Plan": {"free"}}}, Key: []policy.KeyPart{{Source: policy.Header, Name: "X-User"}}, Limits: limits("5/m")},
		policy.Config{Name: "trial", Match: policy.Match{Paths: []string{"/api/*"}}, Key: ip, Limits: limits("1/h"), Mode: policy.Shadow},
		policy.Config{Name: "gone", Key: ip, Limits: limits("1/h"), Mode: policy.Off},
		policy.Config{Name: "some", Match: policy.Match{Paths: []string{"/some"}}, Key: ip, Limits: limits("1/h"), Percent: 1},
		policy.Config{Name: "queue", Match: policy.Match{Paths: []string{"/queue"}}, Key: ip, Limits: limits("1/s leaky_bucket burst 5 queue"), OnDenied: policy.OnDenied{Wait: time.Minute}},
		policy.Config{Name: "dear", Match: policy.Match{Paths: []string{"/dear"}}, Key: ip, Limits: limits("10/h"), CostOf: failingCost{}, Cost: 3, Count: policy.CountFailures, OnStoreError: policy.Closed},
	)
}

// take charges the enforced policies of a request.
func take(t *testing.T, store weir.Store, set *policy.Set, q explain.Question, times int) {
	t.Helper()
	a, err := explain.Explain(t.Context(), store, nil, set, q)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		for _, p := range a.Policies {
			for _, l := range p.Limits {
				if !p.Enforced {
					continue
				}
				if _, err := store.Do(t.Context(), weir.Request{Key: p.Key, Limit: fakestore.PolicyLimit(t, l.Limit), N: p.Cost}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

var update = flag.Bool("update", false, "write testdata")

// TestText compares whole explanations with testdata.
func TestText(t *testing.T) {
	for name, test := range map[string]struct {
		q     explain.Question
		taken int
	}{
		"admitted":     {explain.Question{URL: "http://Shop.Example:8000/api/users?x=1", ClientIP: "203.0.113.7", Headers: map[string]explain.Values{"X-Plan": {"free"}, "X-User": {"ann\x1b[31m"[:3]}}}, 0},
		"denied":       {explain.Question{Method: "POST", Path: "/login", ClientIP: "::ffff:203.0.113.7"}, 5},
		"denied twice": {explain.Question{URL: "/api/a", ClientIP: "2001:db8::1"}, 25},
		"no address":   {explain.Question{URL: "/api//a/../b"}, 1},
		"unlimited":    {explain.Question{URL: "/elsewhere"}, 0},
		"queue":        {explain.Question{URL: "/queue", ClientIP: "192.0.2.1"}, 3},
		"held back":    {explain.Question{URL: "/queue", ClientIP: "192.0.2.1"}, 6},
		"dear":         {explain.Question{URL: "/dear", ClientIP: "192.0.2.1"}, 2},
		"percent":      {explain.Question{URL: "/some", ClientIP: "192.0.2.1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := frozen(t)
			set := every(t)
			take(t, store, set, test.q, test.taken)
			a, err := explain.Explain(t.Context(), store, nil, set, test.q)
			if err != nil {
				t.Fatal(err)
			}
			again, err := explain.Explain(t.Context(), store, nil, set, test.q)
			if err != nil {
				t.Fatal(err)
			}
			first, _ := json.Marshal(a)
			if second, _ := json.Marshal(again); string(first) != string(second) {
				t.Errorf("a second explanation is another: the first took something\n%s\n%s", first, second)
			}
			var read explain.Answer
			if err := json.Unmarshal(first, &read); err != nil {
				t.Fatal(err)
			}
			var text, fromJSON strings.Builder
			a.WriteText(&text)
			read.WriteText(&fromJSON)
			if text.String() != fromJSON.String() {
				t.Errorf("the text of the JSON is\n%s\nwant\n%s", &fromJSON, &text)
			}
			file := "testdata/" + strings.ReplaceAll(name, " ", "-") + ".txt"
			if *update {
				if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || text.String() != string(want) {
				t.Errorf("%v: got\n%s\nwant\n%s", err, &text, want)
			}
		})
	}
}

// TestBorrowed checks that a tenant sees which tokens would be lent: those beyond its own burst.
func TestBorrowed(t *testing.T) {
	store, _ := frozen(t)
	set := setOf(t, policy.Config{Name: "shared", Key: []policy.KeyPart{{Source: policy.Header, Name: "X-Tenant"}}, Limits: limits("100/s burst 100"),
		Tenants: []policy.Tenant{{Key: []string{"acme"}, Weight: 1, Burst: 2}, {Key: []string{"*"}, Weight: 9, Burst: 10}}})
	m, err := httplimit.New(store, set, httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	q := explain.Question{URL: "/", Headers: map[string]explain.Values{"X-Tenant": {"acme"}}}
	for i := range 4 {
		a, err := explain.Explain(t.Context(), store, nil, set, q)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		a.WriteText(&text)
		read, _ := json.Marshal(a)
		want := i >= 2
		if got := a.Policies[0].Limits[0]; got.Borrowed != want || strings.Contains(text.String(), "(borrowed)") != want || strings.Contains(string(read), `"borrowed":true`) != want {
			t.Errorf("after %d requests: borrowed %t, want %t\n%s", i, got.Borrowed, want, &text)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", "acme")
		m.Wrap(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	}
}

// TestWhen checks that a retry is admitted at the time of the explanation and not before.
func TestWhen(t *testing.T) {
	store, now := frozen(t)
	set := every(t)
	q := explain.Question{Method: "POST", URL: "/login", ClientIP: "203.0.113.7"}
	take(t, store, set, q, 5)
	a, err := explain.Explain(t.Context(), store, nil, set, q)
	if err != nil {
		t.Fatal(err)
	}
	if a.Verdict != explain.Denied || a.Denial == nil || a.Denial.Policy != "login" || a.Denial.Status != 503 || a.Denial.RetryAfter == nil {
		t.Fatalf("Explain = %+v, want a denial by login with status 503", a)
	}
	wait := time.Duration(*a.Denial.RetryAfter).Microseconds()
	for _, step := range []struct {
		after int64
		want  explain.Verdict
	}{{wait - 1, explain.Denied}, {1, explain.Admitted}} {
		*now += step.after
		if a, err := explain.Explain(t.Context(), store, nil, set, q); err != nil || a.Verdict != step.want {
			t.Errorf("after %d µs: %s, %v, want %s", step.after, a.Verdict, err, step.want)
		}
	}
}

// TestWho checks which of several denying policies decides.
func TestWho(t *testing.T) {
	store, _ := frozen(t)
	all := []policy.KeyPart{{Source: policy.Constant, Name: "all"}}
	set := setOf(t, policy.Config{Name: "short", Key: all, Limits: limits("5/h")}, policy.Config{Name: "long", Key: all, Limits: limits("5/h")})
	for key, n := range map[string]int64{"short|3:all": 5, "long|3:all": 7} {
		if _, err := store.Do(t.Context(), weir.Request{Verb: weir.Charge, Key: key, Limit: fakestore.PolicyLimit(t, "5/h"), N: n}); err != nil {
			t.Fatal(err)
		}
	}
	a, err := explain.Explain(t.Context(), store, nil, set, explain.Question{URL: "/"})
	if err != nil || a.Denial == nil || a.Denial.Policy != "long" || a.Policies[0].Limits[0].Decides || !a.Policies[1].Limits[0].Decides {
		t.Errorf("Explain = %+v, %v, want a denial by long", a, err)
	}
}

// TestFollowing checks that state of former limits is counted and not moved.
func TestFollowing(t *testing.T) {
	store, _ := frozen(t)
	config := policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: limits("10/h")}
	old := setOf(t, config)
	q := explain.Question{URL: "/"}
	take(t, store, old, q, 5)
	for limit, from := range map[string]string{"20/h": "[]", "20/24h": "[10/h burst 10]"} {
		config.Limits = limits(limit)
		set := setOf(t, config).WithPrevious(old)
		for range 2 { // Explain moves no state
			a, err := explain.Explain(t.Context(), store, nil, set, q)
			if err != nil {
				t.Fatal(err)
			}
			if l := a.Policies[0].Limits[0]; l.Remaining != 15 || fmt.Sprint(l.From) != from {
				t.Errorf("the limit says %+v, want 15 of 20 left, from %s", l, from)
			}
		}
	}
}

// TestOverload checks the explanation of a process that is too busy to decide.
func TestOverload(t *testing.T) {
	a, err := explain.Explain(t.Context(), gone{&weir.OverloadError{Reason: "busy"}}, nil, every(t), explain.Question{URL: "/api/x", ClientIP: "192.0.2.1"})
	if err != nil || a.Verdict != explain.Overloaded {
		t.Fatalf("Explain = %+v, %v, want overloaded", a, err)
	}
	var b strings.Builder
	a.WriteText(&b)
	if !strings.Contains(b.String(), "refused, this process is overloaded") {
		t.Errorf("the text is\n%s", &b)
	}
}

// TestStoreGone checks the explanation without the store.
func TestStoreGone(t *testing.T) {
	a, err := explain.Explain(t.Context(), gone{weir.ErrUnavailable}, nil, every(t), explain.Question{URL: "/api/x", ClientIP: "192.0.2.1"})
	if err != nil || a.Verdict != explain.Undecided {
		t.Fatalf("Explain = %+v, %v, want undecided", a, err)
	}
	p := a.Policies[0]
	if !p.Matched || p.Key == "" || !strings.Contains(p.Problem, "store unavailable") || p.OnStoreError != "local" || len(p.Limits) != 2 {
		t.Errorf("the first policy says %+v", p)
	}
	var b strings.Builder
	a.WriteText(&b)
	if !strings.Contains(b.String(), "not decided") {
		t.Errorf("the text is\n%s", &b)
	}
}

type gone struct{ err error }

func (g gone) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, g.err
}

func (g gone) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, g.err
}

// TestHandler checks POST and GET requests and their errors.
func TestHandler(t *testing.T) {
	store, _ := frozen(t)
	set := every(t)
	h := explain.New(explain.Config{Store: store, Policies: func() *policy.Set { return set }})
	post := ask(h, "POST", "/v1/explain", `{"method":"POST","url":"http://shop.example/api/x?a=b","headers":{"X-Plan":"free","X-User":["ann"]},"client_ip":"203.0.113.7"}`)
	q := url.Values{"method": {"POST"}, "url": {"http://shop.example/api/x?a=b"}, "header": {"X-Plan: free", "X-User:ann"}, "client_ip": {"203.0.113.7"}}
	get := ask(h, "GET", "/v1/explain?"+q.Encode(), "")
	if post.Code != 200 || get.Code != 200 || post.Body.String() != get.Body.String() {
		t.Errorf("POST = %d %s\nGET = %d %s", post.Code, post.Body, get.Code, get.Body)
	}
	for _, want := range []string{`"verdict":"admitted"`, `"host":"shop.example","path":"/api/x?a=b","client_ip":"203.0.113.7"`,
		`"policy":"plans","matched":true,"mode":"enforce","enforced":true,"key":"plans|3:ann"`, `"policy":"login","matched":false,"why":"match.paths"`,
		`"policy":"api~candidate"`, `"at":"2023-11-14T22:13:20Z"`} {
		if !strings.Contains(post.Body.String(), want) {
			t.Errorf("the answer has no %s: %s", want, post.Body)
		}
	}
	if w := ask(h, "PUT", "/v1/explain", "{}"); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("PUT = %d %v", w.Code, w.Header())
	}
	if w := ask(h, "POST", "/v1/explain", `{"url":"/`+strings.Repeat("x", explain.MaxBody)+`"}`); w.Code != 413 {
		t.Errorf("a large question = %d, want 413", w.Code)
	}
}

// TestDraft checks that a question with a draft is decided under both sets of policies, and that only
// the role operate may send one.
func TestDraft(t *testing.T) {
	store, _ := frozen(t)
	set := setOf(t, policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: limits("1/m")})
	h := explain.New(explain.Config{Store: store, Policies: func() *policy.Set { return set }, Draft: func(text string) (*policy.Set, error) {
		if text != "a draft" {
			return nil, errors.New("line 1: limits: want COUNT/PERIOD")
		}
		return setOf(t, policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: limits("5/m")}), nil
	}})
	as := func(role access.Role, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v1/explain", strings.NewReader(body))
		h.ServeHTTP(w, r.WithContext(access.WithActor(t.Context(), access.Actor{Name: "mei", Role: role})))
		return w
	}
	w := as(access.Operate, `{"url":"/login","client_ip":"203.0.113.7","draft":"a draft"}`)
	var a explain.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 || a.Draft == nil {
		t.Fatalf("%d %s, want an answer with a draft", w.Code, w.Body)
	}
	if now, then := a.Policies[0].Limits[0].Capacity, a.Draft.Policies[0].Limits[0].Capacity; now != 1 || then != 5 {
		t.Errorf("capacity %d, with the draft %d, want 1 and 5", now, then)
	}
	var text strings.Builder
	if err := a.WriteText(&text); err != nil || strings.Count(text.String(), "\nwith the draft: admitted\n  login: enforced, key login|11:203.0.113.7, cost 1\n    5/m") != 1 {
		t.Errorf("text %s, %v", text.String(), err)
	}
	large := strings.Repeat("x", explain.MaxBody)
	for _, test := range []struct {
		role access.Role
		body string
		code int
		want string
	}{
		{access.Read, `{"url":"/","draft":"a draft"}`, 403, "operate"},
		{access.Read, `{"url":"/","draft":"` + large + `"}`, 413, "body"},
		{access.Operate, `{"url":"/","draft":"` + large + `"}`, 400, "line 1: limits: want COUNT/PERIOD"},
		{access.Read, `{"url":"/"}`, 200, `"unused":true`},
	} {
		if w := as(test.role, test.body); w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %.60s = %d %s, want %d with %s", test.role, test.body, w.Code, w.Body, test.code, test.want)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	store, _ := frozen(t)
	set := every(t)
	h := explain.New(explain.Config{Store: store, Policies: func() *policy.Set { return set }})
	for _, test := range []struct{ method, query, body, field, value, expected string }{
		{"POST", "", ``, "body", "nothing", "a JSON object"},
		{"POST", "", `[]`, "body", "[]", "a JSON object"},
		{"POST", "", `{"url":"/"}x`, "body", "x", "nothing after"},
		{"POST", "", `{"url":"/","nn":1}`, "body", "nn", `unknown field`},
		{"POST", "", `{"url":1}`, "url", "number", "a text"},
		{"POST", "", `{"url":"/","headers":[]}`, "headers", "array", "names and values"},
		{"POST", "", `{"url":"/","headers":{"X":1}}`, "headers", "1", "a text or an array"},
		{"POST", "", `{"url":"/","headers":{"X":null}}`, "headers", "null", "a text or an array"},
		{"POST", "", `{"url":"/","headers":{"X Y":"1"}}`, "headers", "X Y", "valid names"},
		{"POST", "", `{"url":"/","headers":{"":"1"}}`, "headers", "nothing", "valid names"},
		{"POST", "", `{"url":"/","headers":{"X":"a\nb"}}`, "headers.X", `a\nb`, "without line breaks"},
		{"POST", "", `{"url":"/","headers":{"host":"a"}}`, "headers.Host", "one", "host"},
		{"POST", "", `{}`, "url", "nothing", "a URL or path"},
		{"POST", "", `{"url":"/","path":"/"}`, "path", "/", "not both"},
		{"POST", "", `{"url":"a b"}`, "url", "a b", "as a server would accept it"},
		{"POST", "", `{"url":"a"}`, "url", "a", "as a server would accept it"},
		{"POST", "", `{"path":"/%zz"}`, "path", "/%zz", "as a server would accept it"},
		{"POST", "", `{"url":"/","method":"G T"}`, "method", "G T", "a method"},
		{"POST", "", `{"url":"/","host":"a,b"}`, "host", "a,b", "one host"},
		{"POST", "", `{"url":"/","host":"a\r\nX: y"}`, "host", `a\r\nX`, "one host"},
		{"POST", "", `{"url":"http://a/","host":"b"}`, "host", "b", "the host of url"},
		{"POST", "", `{"url":"/","client_ip":"localhost"}`, "client_ip", "localhost", "an address"},
		{"POST", "", `{"url":"/","client_ip":"fe80::1%eth0"}`, "client_ip", "fe80::1%eth0", "an address"},
		{"GET", "?url=/&x=1", "", "query", "x", "method, url"},
		{"GET", "?url=/&url=/a", "", "url", "2 of them", "one"},
		{"GET", "?url=/&%zz", "", "query", "%zz", "parameters"},
		{"GET", "?url=/&header=X", "", "header", "X", "NAME: VALUE"},
		{"GET", "?url=/&header=:x", "", "header", ":x", "NAME: VALUE"},
		{"GET", "", "", "url", "nothing", "a URL or path"},
	} {
		w := ask(h, test.method, "/v1/explain"+test.query, test.body)
		var p struct{ Field, Value, Expected, Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || p.Field != test.field || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) || p.Detail == "" {
			t.Errorf("%s%s = %d %s, want 400 with %q, %q, %q", test.body, test.query, w.Code, w.Body, test.field, test.value, test.expected)
		}
	}
	_, err := explain.Explain(t.Context(), store, nil, set, explain.Question{})
	if field := (*problem.FieldError)(nil); !errors.As(err, &field) || field.Field != "url" {
		t.Errorf("Explain of nothing = %v, want a FieldError of url", err)
	}
}

func ask(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	h.ServeHTTP(w, r.WithContext(access.WithActor(r.Context(), access.Actor{Name: "mei", Role: access.Operate})))
	return w
}

func FuzzQuestion(f *testing.F) {
	f.Add(`{"method":"POST","url":"http://shop.example/api/x?a=b","headers":{"X-Plan":"free","X-User":["ann"]},"client_ip":"203.0.113.7"}`)
	f.Add(`{"host":"a","path":"//x%2f..","headers":{"Cookie":"a=b; c"}}`)
	store, _ := frozen(f)
	set := every(f)
	h := explain.New(explain.Config{Store: store, Policies: func() *policy.Set { return set }})
	f.Fuzz(func(t *testing.T, body string) {
		w := ask(h, "POST", "/v1/explain", body)
		if w.Code != 200 && w.Code != 400 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q = %d %s", body, w.Code, w.Body)
		}
		if w.Code == 200 {
			var a explain.Answer
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Error(err)
			}
			a.WriteText(&strings.Builder{})
		}
	})
}

func ExampleExplain() {
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1_700_000_000_000_000 }})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name: "api", Match: policy.Match{Paths: []string{"/api/*"}},
		Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s burst 20")},
	})
	if err != nil {
		panic(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		panic(err)
	}
	a, err := explain.Explain(context.Background(), store, nil, set, explain.Question{URL: "/api/users", ClientIP: "203.0.113.7"})
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Verdict, a.Policies[0].Key, a.Policies[0].Limits[0].Remaining)
	// Output: admitted api|11:203.0.113.7 20
}

// TestZone checks that only the first matching policy of a zone is charged.
func TestZone(t *testing.T) {
	ip := []policy.KeyPart{{Source: policy.ClientIP}}
	set := setOf(t,
		policy.Config{Name: "files", Zone: "perip", Match: policy.Match{Paths: []string{"/api/files/*"}}, Key: ip, Limits: limits("10/s leaky_bucket burst 5 nginx shared")},
		policy.Config{Name: "api", Zone: "perip", Match: policy.Match{Paths: []string{"/api/*"}}, Key: ip, Limits: limits("10/s leaky_bucket burst 20 queue nginx shared")},
	)
	store, _ := frozen(t)
	for path, want := range map[string]string{
		"/api/files/x": "  files: enforced, key perip~zone|11:203.0.113.7, cost 1\n    10/s leaky_bucket burst 5 nginx shared: 6 of 6 left, admits <- decides\n" +
			"  api: not decided: a request counts once in a zone, by the first matching policy\n",
		"/api/x": "  files: does not match: match.paths\n  api: enforced, key perip~zone|11:203.0.113.7, cost 1\n",
	} {
		a, err := explain.Explain(t.Context(), store, nil, set, explain.Question{Path: path, ClientIP: "203.0.113.7"})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.WriteText(&b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s, want\n%s", path, err, b.String(), want)
		}
	}
}

// TestAdjustment checks that the explanation of a frozen key says who froze it.
func TestAdjustment(t *testing.T) {
	store, _ := frozen(t)
	set, err := every(t).WithAdjustments([]policy.Adjustment{{Policy: "api", Key: []string{"203.0.113.7"}, Block: true, Note: "frozen by mei: ticket 812"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := explain.Explain(t.Context(), store, nil, set, explain.Question{URL: "/api/users", ClientIP: "203.0.113.7"})
	if err != nil || a.Verdict != explain.Denied || a.Denial.Policy != "api" || a.Policies[0].Adjustment != "frozen by mei: ticket 812" {
		t.Fatalf("Explain = %+v, %v, want denied by api with the note", a, err)
	}
	var text strings.Builder
	if err := a.WriteText(&text); err != nil || !strings.Contains(text.String(), "    frozen by mei: ticket 812\n    blocks the request\n") {
		t.Errorf("text %s, %v, want the note before the block", text.String(), err)
	}
}

// TestReadSeesNoState checks that the role read cannot find out whether an address was used or
// adjusted.
func TestReadSeesNoState(t *testing.T) {
	store, _ := frozen(t)
	set := setOf(t, policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: limits("1/m")})
	set, err := set.WithAdjustments([]policy.Adjustment{{Policy: "login", Key: []string{"192.0.2.2"}, Block: true, Note: "frozen by mei: ticket 812"}})
	if err != nil {
		t.Fatal(err)
	}
	var q policy.Matches
	if err := set.MatchKey(&q, "login", []string{"192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if ok, err := store.DoAll(t.Context(), q.Requests, make([]weir.Decision, len(q.Requests))); err != nil || !ok {
		t.Fatal(ok, err)
	}
	h := explain.New(explain.Config{Store: store, Policies: func() *policy.Set { return set }})
	for role, want := range map[access.Role]map[string]explain.Verdict{
		access.Read:    {"192.0.2.1": explain.Admitted, "192.0.2.2": explain.Admitted, "192.0.2.3": explain.Admitted},
		access.Operate: {"192.0.2.1": explain.Denied, "192.0.2.2": explain.Denied, "192.0.2.3": explain.Admitted},
	} {
		for address, want := range want {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/v1/explain?url=/login&client_ip="+address, nil)
			h.ServeHTTP(w, r.WithContext(access.WithActor(t.Context(), access.Actor{Name: "mei", Role: role})))
			var a explain.Answer
			var text strings.Builder
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Verdict != want || a.Unused != (role == access.Read) || a.WriteText(&text) != nil {
				t.Errorf("%s of %s = %s, want %s", address, role, w.Body, want)
			}
			if strings.Contains(w.Body.String(), "mei") != (role == access.Operate && address == "192.0.2.2") || strings.Contains(text.String(), "unused") != a.Unused {
				t.Errorf("%s of %s: %s\n%s", address, role, w.Body, &text)
			}
		}
	}
}
