package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floodweir/weir/policy"
)

func TestMatch(t *testing.T) {
	get := func(path string) request { return request{method: "GET", host: "a.example", path: path} }
	tests := []struct {
		match   policy.Match
		yes, no []request
	}{
		{policy.Match{}, []request{get("/"), get("*"), {}}, nil},
		{
			policy.Match{Methods: []string{"get", "PURGE"}},
			[]request{{method: "GET"}, {method: "HEAD"}, {method: "get"}, {method: "purge"}},
			[]request{{method: "POST"}, {method: ""}, {method: "GETS"}},
		},
		{
			policy.Match{Methods: []string{"HEAD"}}, []request{{method: "HEAD"}}, []request{{method: "GET"}},
		},
		{
			policy.Match{Hosts: []string{"Example.com.", "*.b.example", "::1", "[2001:DB8::0]"}},
			[]request{
				{host: "example.com"}, {host: "EXAMPLE.COM:8080"}, {host: "example.com."}, {host: "example.com.:80"}, {host: "a.b.example"},
				{host: "x.a.B.example"}, {host: "[::1]:80"}, {host: "[::1]"}, {host: "[0:0:0:0:0:0:0:1]"}, {host: "[2001:db8::]:1"},
			},
			[]request{{host: ""}, {host: "b.example"}, {host: "xb.example"}, {host: ".b.example"}, {host: "example.com.evil"}, {host: "[::2]"}},
		},
		{
			policy.Match{Paths: []string{"/a", "/b/*", "/c/{id}/d", "/e/{rest...}"}},
			[]request{
				get("/a"), get("/a/"), get("/b"), get("/b/"), get("/b/x"), get("/b/x/y/z"), get("/c/1/d"), get("/c/1/d/"), get("/e"), get("/e/f/g"),
			},
			[]request{get("/"), get(""), get("*"), get("/a/b"), get("/ab"), get("/bb"), get("/c/d"), get("/c//d"), get("/c/1"), get("/c/1/d/e"), get("/c/1/2/d")},
		},
		{
			policy.Match{Paths: []string{"/{$}"}}, []request{get("/"), get(""), get("//"), get("/./"), get("/?x=/a")}, []request{get("/a"), get("*")},
		},
		{
			policy.Match{Paths: []string{"/"}}, []request{get("/")}, []request{get("/a")},
		},
		{
			policy.Match{Paths: []string{"/*"}}, []request{get("/"), get("/a"), get("*"), get("")}, nil,
		},
		{
			policy.Match{Headers: map[string][]string{"x-plan": {"free", "trial"}, "X-Any": {"*"}}},
			[]request{
				{header: map[string][]string{"X-Plan": {"free"}, "X-Any": {"x"}}},
				{header: map[string][]string{"X-Plan": {"paid", " trial "}, "X-Any": {"", "x"}}},
			},
			[]request{
				{}, {header: map[string][]string{"X-Plan": {"free"}}}, {header: map[string][]string{"X-Plan": {"Free"}, "X-Any": {"x"}}},
				{header: map[string][]string{"X-Plan": {"free"}, "X-Any": {""}}},
			},
		},
	}
	for _, tc := range tests {
		p := mustNew(t, policy.Config{Match: tc.match})
		for _, r := range tc.yes {
			if _, ok := keyOf(t, p, r); !ok {
				t.Errorf("%+v does not match %+v, want a match", tc.match, r)
			}
		}
		for _, r := range tc.no {
			if _, ok := keyOf(t, p, r); ok {
				t.Errorf("%+v matches %+v, want none", tc.match, r)
			}
		}
	}
}

// TestSpelling checks that all spellings of a request have the same bucket.
func TestSpelling(t *testing.T) {
	p := mustNew(t, policy.Config{
		Match: policy.Match{Paths: []string{"/api/users/{id}", "/api/*"}, Hosts: []string{"api.example"}},
		Key:   []policy.KeyPart{part(policy.Path, ""), part(policy.Host, ""), part(policy.ClientIP, "")},
	})
	want, ok := keyOf(t, p, request{host: "api.example", path: "/api/users/7", ip: "192.0.2.1"})
	if !ok {
		t.Fatal("the plain spelling does not match")
	}
	for _, path := range []string{
		"/api/users/8", "//api//users//7", "/api/users/7/", "/api/./users/7", "/./api/users/7", "/x/../api/users/7", "/%61pi/users/7",
		"/api%2fusers%2F7", "/api%5cusers/7", `/api\users\7`, "/API/Users/7", "/api;v=1/users;a=b/7;c", "/api%3bv=1/users/7", "/api/users/7?x=/",
		"/api/users/7#f", "/api/users/%2e/7", "/api/x/%2e%2e/users/7", "/../../api/users/7", "api/users/7", "/api/users/a%2fb", "/api/users/%zz",
		"/api/users/%", "/api/users/\xff", "/api/users/7/..;/7",
	} {
		for _, host := range []string{"api.example", "API.example", "api.example:443", "api.example."} {
			if got, ok := keyOf(t, p, request{host: host, path: path, ip: "192.0.2.1"}); !ok || got != want {
				t.Errorf("key of %s at %s = %q, %v, want %q", path, host, got, ok, want)
			}
		}
	}
}

// TestNoBypass checks that a path matches if some server would normalize it to one under
// /api.
func TestNoBypass(t *testing.T) {
	p := mustNew(t, policy.Config{Match: policy.Match{Paths: []string{"/api/*"}}})
	for _, path := range []string{
		"/api/x/../../other", "/api/..;/admin", "/other/..;/api/x", "/other/../api/x", "/other/..%2fapi/x", "/api/..%2f..%2fother", "/api%2f..%2fother",
		"/api/%2e%2e/other", "/\\api\\x", "/aPi", "/api;/x", "/%41pi",
		`/x%5cy%2f../api`, "/x%5cy%2F../api", "/api#x", "/api%23x", "/api/x#/../../other", "/api#%2f..", "/y/x;a%2f../../api", "/x/..;a%2f../../../api/y",
		`/x;a%5c..%2fy/../../api`, "/x/..;a/..%2f../api%5cy", `/x\..;\..\..\api`,
		"/api//../x", "/y/api//../../api/z", "/api/;a/../x", "/x/..;/..;/;/api",
	} {
		if _, ok := keyOf(t, p, request{path: path}); !ok {
			t.Errorf("%s does not match /api/*", path)
		}
	}
	for _, path := range []string{"/apix", "/other/api", "/other;/api", "/api%00", "/other#/api", "/%23/api", "/%2523api"} {
		if _, ok := keyOf(t, p, request{path: path}); ok {
			t.Errorf("%s matches /api/*", path)
		}
	}
}

// FuzzSpelling checks that escaped letters and repeated slashes in a path change neither
// the match nor the key.
func FuzzSpelling(f *testing.F) {
	for _, s := range []string{"/api/users/1", "/api", "/", "*", "/a/../b;c/%2f", "/%zz/\xff", "//", "/api/{id}/.."} {
		f.Add(s, uint64(1))
	}
	p, err := policy.New(policy.Config{
		Name: "p", Match: policy.Match{Paths: []string{"/api/users/{id}", "/api/*", "/x"}}, Key: []policy.KeyPart{part(policy.Path, "")}, Limits: ten,
	})
	if err != nil {
		f.Fatal(err)
	}
	s, _ := policy.NewSet(p)
	f.Fuzz(func(t *testing.T, path string, seed uint64) {
		var q policy.Matches
		ask := func(path string) string {
			s.Match(&q, request{path: path})
			if len(q.Charges) == 0 {
				return ""
			}
			return q.Charges[0].Key
		}
		want := ask(path)
		if strings.ContainsAny(path, "%;?#\\.") || !strings.HasPrefix(path, "/") {
			return // escaping would change what it means
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for i := range len(path) {
			switch c := path[i]; {
			case c == '/':
				b.WriteString(strings.Repeat("/", 1+rng.IntN(2)))
			case rng.IntN(2) == 0:
				fmt.Fprintf(&b, "%%%02x", c)
			default:
				b.WriteByte(c)
			}
		}
		if got := ask(b.String()); got != want {
			t.Errorf("key of %q = %q, want %q, that of %q", b.String(), got, want, path)
		}
	})
}
