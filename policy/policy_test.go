package policy_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// request is Attributes for tests.
type request struct {
	method, host, path     string
	header, query, cookies map[string][]string
	ip                     string
}

func (r request) Method() string { return r.method }
func (r request) Host() string   { return r.host }
func (r request) Path() string   { return r.path }
func (r request) Header(name string) []string {
	if name != textproto.CanonicalMIMEHeaderKey(name) {
		panic("not canonical: " + name)
	}
	return r.header[name]
}
func (r request) Query(name string) []string  { return r.query[name] }
func (r request) Cookie(name string) []string { return r.cookies[name] }
func (r request) ClientIP() netip.Addr {
	a, _ := netip.ParseAddr(r.ip)
	return a
}

var ten = []weir.Limit{weir.MustLimit("10/s")}

func part(s policy.Source, name string) policy.KeyPart {
	return policy.KeyPart{Source: s, Name: name}
}

var byIP = []policy.KeyPart{part(policy.ClientIP, "")}

func mustNew(t testing.TB, c policy.Config) *policy.Policy {
	t.Helper()
	if c.Name == "" {
		c.Name = "p"
	}
	if c.Key == nil {
		c.Key = byIP
	}
	if c.Limits == nil {
		c.Limits = ten
	}
	p, err := policy.New(c)
	if err != nil {
		t.Fatalf("New(%+v): %v", c, err)
	}
	return p
}

func mustSet(t testing.TB, ps ...*policy.Policy) *policy.Set {
	t.Helper()
	s, err := policy.NewSet(ps...)
	if err != nil {
		t.Fatalf("NewSet: %v", err)
	}
	return s
}

// keyOf is the key of r under p, and whether p is about it.
func keyOf(t testing.TB, p *policy.Policy, r request) (string, bool) {
	t.Helper()
	var q policy.Questions
	mustSet(t, p).Ask(&q, r)
	if len(q.Asks) == 0 {
		return "", false
	}
	return q.Asks[0].Key, true
}

func TestNewFillsDefaultsIn(t *testing.T) {
	c := mustNew(t, policy.Config{}).Config()
	if c.Cost != 1 || c.Mode != policy.Enforce || c.OnStoreError != policy.Open || c.OnDenied.Status != 429 || c.OnDenied.Body != policy.ProblemJSON {
		t.Errorf("Config() = %+v, want cost 1, enforce, open, 429 and problem+json", c)
	}
	c = mustNew(t, policy.Config{OnDenied: policy.OnDenied{Body: "slow down"}}).Config()
	if got, want := c.OnDenied.ContentType, "text/plain; charset=utf-8"; got != want {
		t.Errorf("ContentType of a text = %q, want %q", got, want)
	}
}

// TestNewErrors compares every refusal with testdata/errors.golden.
func TestNewErrors(t *testing.T) {
	good := func() policy.Config { return policy.Config{Name: "p", Key: byIP, Limits: ten} }
	cases := []struct {
		name   string
		change func(*policy.Config)
	}{
		{"everything missing", func(c *policy.Config) { *c = policy.Config{} }},
		{"name with a space", func(c *policy.Config) { c.Name = "my policy" }},
		{"name with a separator", func(c *policy.Config) { c.Name = "a|b" }},
		{"name of another script", func(c *policy.Config) { c.Name = "限流" }},
		{"name too long", func(c *policy.Config) { c.Name = strings.Repeat("a", 65) }},
		{"name begins with a dash", func(c *policy.Config) { c.Name = "-a" }},
		{"methods", func(c *policy.Config) { c.Match.Methods = []string{"GET", "", "PO ST"} }},
		{"hosts", func(c *policy.Config) {
			c.Match.Hosts = []string{"", "a.example:80", "http://a.example", "*", "*.", "a.*.example", "*.1.2.3.4", "1.2.3.4:80", "a..b", ".a", "[::1", "fe80::1%eth0"}
		}},
		{"paths", func(c *policy.Config) {
			c.Match.Paths = []string{"", "api", "/api/", "/a//b", "/a/./b", "/a/../b", "/a%2fb", "/a;b", "/a?b", "/a#b", `/a\b`, "/*/a", "/a*",
				"/{}", "/{1}", "/{a", "/a}", "/x{a}", "/{a...}/b", "/{a}/{a}", "/{$}/a", "/\x00", "/\xff", "/" + strings.Repeat("a", 1024)}
		}},
		{"headers", func(c *policy.Config) {
			c.Match.Headers = map[string][]string{"X-Plan": nil, "x-plan": {"a"}, "Host": {"a"}, "": {"a"}, "a b": {"a"}, "X-A": {"", " a", "a\n"}}
		}},
		{"keys", func(c *policy.Config) {
			c.Key = []policy.KeyPart{
				part("", ""), part("user", ""), part(policy.Path, ""), part(policy.Host, "a"), part(policy.ClientIP, "0"), part(policy.ClientIP, "129"),
				part(policy.ClientIP, "064"), part(policy.Header, ""), part(policy.Header, "X Y"), part(policy.Header, "host"), part(policy.Query, ""),
				part(policy.Constant, ""), part(policy.Cookie, "a;b"), part(policy.Header, "x-a"), part(policy.Header, "X-A"), part(policy.Constant, "a\n"),
			}
		}},
		{"too many keys", func(c *policy.Config) {
			c.Key = nil
			for i := range 17 {
				c.Key = append(c.Key, part(policy.Constant, fmt.Sprint(i)))
			}
		}},
		{"limits", func(c *policy.Config) {
			c.Limits = []weir.Limit{weir.MustLimit("10/s"), {}, weir.MustLimit("10/1s burst 10")}
		}},
		{"too many limits", func(c *policy.Config) { c.Limits = make([]weir.Limit, weir.MaxBatch+1) }},
		{"negative cost", func(c *policy.Config) { c.Cost = -1 }},
		{"cost above a limit", func(c *policy.Config) { c.Cost = 11 }},
		{"cost above all", func(c *policy.Config) { c.Cost = 1<<63 - 1 }},
		{"status", func(c *policy.Config) { c.OnDenied.Status = 199 }},
		{"status above", func(c *policy.Config) { c.OnDenied.Status = 600 }},
		{"status without a body", func(c *policy.Config) { c.OnDenied.Status = 304 }},
		{"content type of a problem", func(c *policy.Config) { c.OnDenied.ContentType = "text/html" }},
		{"content type", func(c *policy.Config) {
			c.OnDenied = policy.OnDenied{Body: "x", ContentType: "text/html\r\nX-Evil: 1"}
		}},
		{"content type without a slash", func(c *policy.Config) { c.OnDenied = policy.OnDenied{Body: "x", ContentType: "html"} }},
		{"body too long", func(c *policy.Config) { c.OnDenied.Body = strings.Repeat("x", 1<<16+1) }},
		{"denied headers", func(c *policy.Config) {
			c.OnDenied.Headers = map[string]string{"a b": "x", "X-A": "a\r\nX-B: b", "retry-after": "1", "content-length": "1", "RateLimit": "x",
				"X-RateLimit-Limit": "1", "Proxy-Authenticate": "x", "Connection": "close", "X-Good": "yes"}
		}},
		{"on_store_error", func(c *policy.Config) { c.OnStoreError = "ignore" }},
		{"on_store_error local", func(c *policy.Config) { c.OnStoreError = "local" }},
		{"mode", func(c *policy.Config) { c.Mode = "dry-run" }},
		{"overrides", func(c *policy.Config) {
			c.Overrides = []policy.Override{
				{}, {Key: []string{"a", "b"}, Limits: ten}, {Key: []string{"1.2.3"}, Limits: ten}, {Key: []string{"10.0.0.0/8"}, Limits: ten},
				{Key: []string{"2001:db8::/48"}, Limits: ten}, {Key: []string{"fe80::1%eth0"}, Limits: ten}, {Key: []string{"1.2.3.4"}},
				{Key: []string{"2001:db8::1"}, Limits: ten}, {Key: []string{"2001:db8::2"}, Limits: ten}, {Key: []string{"1.2.3.4"}, Limits: []weir.Limit{{}}},
				{Key: []string{"::ffff:1.2.3.4/128"}, Limits: ten},
			}
		}},
		{"overrides of other parts", func(c *policy.Config) {
			c.Match.Paths = []string{"/a/*"}
			c.Key = []policy.KeyPart{part(policy.Path, ""), part(policy.Method, ""), part(policy.Host, ""), part(policy.Constant, "x"), part(policy.Header, "X-A")}
			for i, bad := range []string{"/a/b", "BREW", "*.example.com", "y", " a "} {
				key := []string{"/a/*", "GET", "example.com", "x", "a"}
				key[i] = bad
				c.Overrides = append(c.Overrides, policy.Override{Key: key, Limits: ten})
			}
		}},
		{"too many overrides", func(c *policy.Config) { c.Overrides = make([]policy.Override, policy.MaxOverrides+1) }},
	}
	var b strings.Builder
	for _, tc := range cases {
		c := good()
		tc.change(&c)
		_, err := policy.New(c)
		if err == nil {
			t.Errorf("%s: New = nil error, want one", tc.name)
			continue
		}
		if !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%s: error %v does not wrap weir.ErrInvalid", tc.name, err)
		}
		fmt.Fprintf(&b, "## %s\n%v\n\n", tc.name, err)
	}
	golden(t, "testdata/errors.golden", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", name, got)
	}
}

func TestErrorSaysEveryField(t *testing.T) {
	_, err := policy.New(policy.Config{Name: "p", Key: byIP, Limits: ten, Mode: "x", Cost: -1})
	var errs policy.Errors
	if !errors.As(err, &errs) || len(errs) != 2 {
		t.Fatalf("New = %v, want two Errors", err)
	}
	if e := errs[0]; e.Policy != "p" || e.Field != "cost" || e.Value != "-1" || e.Want == "" {
		t.Errorf("first error = %+v, want policy p, field cost, value -1", e)
	}
}

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

// TestSpelling: whatever a request is spelled like, it is the same bucket (S5).
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

// TestNoWayAround: a path that some server behind the door would take for one under
// /api matches, though another server would not.
func TestNoWayAround(t *testing.T) {
	p := mustNew(t, policy.Config{Match: policy.Match{Paths: []string{"/api/*"}}})
	for _, path := range []string{
		"/api/x/../../other", "/api/..;/admin", "/other/..;/api/x", "/other/../api/x", "/other/..%2fapi/x", "/api/..%2f..%2fother", "/api%2f..%2fother",
		"/api/%2e%2e/other", "/\\api\\x", "/aPi", "/api;/x", "/%41pi",
	} {
		if _, ok := keyOf(t, p, request{path: path}); !ok {
			t.Errorf("%s does not match /api/*", path)
		}
	}
	for _, path := range []string{"/apix", "/other/api", "/other;/api", "/api%00"} {
		if _, ok := keyOf(t, p, request{path: path}); ok {
			t.Errorf("%s matches /api/*", path)
		}
	}
}

// TestClientIP is the buckets of addresses (S3, S4).
func TestClientIP(t *testing.T) {
	key := func(bits, ip string) string {
		k, _ := keyOf(t, mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.ClientIP, bits)}}), request{ip: ip})
		return k
	}
	for _, tc := range []struct{ bits, ip, want string }{
		{"", "1.2.3.4", "p|7:1.2.3.4"},
		{"", "::ffff:1.2.3.4", "p|7:1.2.3.4"},
		{"", "::ffff:102:304", "p|7:1.2.3.4"},
		{"56", "::ffff:102:304", "p|7:1.2.3.4"},
		{"1", "1.2.3.4", "p|7:1.2.3.4"},
		{"", "1.2.3.5", "p|7:1.2.3.5"},
		{"", "2001:db8::1.2.3.4", "p|13:2001:db8::/64"},
		{"", "2001:db8:0:0:ffff::9%eth0", "p|13:2001:db8::/64"},
		{"", "2001:db8:0:1::1", "p|17:2001:db8:0:1::/64"},
		{"56", "2001:db8:0:ff::1", "p|13:2001:db8::/56"},
		{"128", "2001:db8::1", "p|11:2001:db8::1"},
		{"", "64:ff9b::1.2.3.4", "p|12:64:ff9b::/64"},
		{"", "", "p|-"},
	} {
		if got := key(tc.bits, tc.ip); got != tc.want {
			t.Errorf("key of %s by client.ip/%s = %q, want %q", tc.ip, tc.bits, got, tc.want)
		}
	}
	buckets := map[string]bool{}
	p := mustNew(t, policy.Config{})
	s := mustSet(t, p)
	var q policy.Questions
	for range 100_000 {
		s.Ask(&q, request{ip: fmt.Sprintf("2001:db8:1:2:%x:%x:%x:%x", rand.N(1<<16), rand.N(1<<16), rand.N(1<<16), rand.N(1<<16))})
		buckets[q.Asks[0].Key] = true
	}
	if len(buckets) != 1 {
		t.Errorf("100000 addresses of one /64 have %d buckets, want 1", len(buckets))
	}
}

// TestAnonymous: what has no value shares one bucket and is never unlimited (S8).
func TestAnonymous(t *testing.T) {
	for _, tc := range []struct {
		source policy.Source
		none   []request
	}{
		{policy.Header, []request{
			{}, {header: map[string][]string{"X-A": {}}}, {header: map[string][]string{"X-A": {""}}}, {header: map[string][]string{"X-A": {" \t"}}},
			{header: map[string][]string{"X-A": {"a", "b"}}}, {header: map[string][]string{"X-A": {"", "b"}}},
		}},
		{policy.Query, []request{{}, {query: map[string][]string{"X-A": {""}}}, {query: map[string][]string{"X-A": {"a", "b"}}}}},
		{policy.Cookie, []request{{}, {cookies: map[string][]string{"X-A": {""}}}, {cookies: map[string][]string{"X-A": {"a", "b"}}}}},
	} {
		p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(tc.source, "X-A")}})
		for _, r := range tc.none {
			if k, ok := keyOf(t, p, r); !ok || k != "p|-" {
				t.Errorf("%s: key of %+v = %q, %v, want p|-", tc.source, r, k, ok)
			}
		}
	}
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "x-a")}})
	if k, _ := keyOf(t, p, request{header: map[string][]string{"X-A": {" a", "a "}}}); k != "p|1:a" {
		t.Errorf("key of a header sent twice alike = %q, want p|1:a", k)
	}
}

func TestMethodKey(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Method, "")}})
	for method, want := range map[string]string{"GET": "p|3:GET", "get": "p|3:GET", "BREW": "p|1:*", "XYZ1": "p|1:*", "": "p|1:*"} {
		if k, _ := keyOf(t, p, request{method: method}); k != want {
			t.Errorf("key of method %q = %q, want %q", method, k, want)
		}
	}
	p = mustNew(t, policy.Config{Match: policy.Match{Methods: []string{"brew"}}, Key: []policy.KeyPart{part(policy.Method, "")}})
	if k, _ := keyOf(t, p, request{method: "Brew"}); k != "p|4:BREW" {
		t.Errorf("key of a listed method = %q, want p|4:BREW", k)
	}
}

// TestKeysDiffer: different values have different keys, whatever they hold, and no
// key is longer than 128 bytes (S6).
func TestKeysDiffer(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "A"), part(policy.Header, "B")}})
	s := mustSet(t, p)
	pieces := []string{"", "a", "b", "|", ":", "1", "-", "|-", "1:a", "|1:a", "{", "}", "\r\n", "\x00", "😀", "#", "é", "e\u0301",
		strings.Repeat("x", 50), strings.Repeat("x", 100), strings.Repeat("x", 101)}
	seen := map[string]string{}
	var q policy.Questions
	random := func() string {
		return pieces[rand.N(len(pieces))] + pieces[rand.N(len(pieces))] + pieces[rand.N(len(pieces))]
	}
	for range 200_000 {
		a, b := random(), random()
		s.Ask(&q, request{header: map[string][]string{"A": {a}, "B": {b}}})
		k := q.Asks[0].Key
		value := fmt.Sprintf("%q %q", strings.TrimSpace(a), strings.TrimSpace(b))
		if other, ok := seen[k]; ok && other != value {
			t.Fatalf("key %q is that of %s and of %s", k, value, other)
		}
		seen[k] = value
		if len(k) > 128 {
			t.Fatalf("key of %s has %d bytes, want at most 128", value, len(k))
		}
	}
	if len(seen) < 1000 {
		t.Fatalf("only %d different keys were tried", len(seen))
	}
	s.Ask(&q, request{header: map[string][]string{"A": {strings.Repeat("x", 1<<20)}}})
	if k := q.Asks[0].Key; len(k) > 128 || !strings.HasPrefix(k, "p|#") {
		t.Errorf("key of a value of 1 MB = %q, want a hash of at most 128 bytes", k)
	}
}

func TestOverrides(t *testing.T) {
	vip, anonymous, net6 := weir.MustLimit("1000/s"), weir.MustLimit("1/s"), weir.MustLimit("5/s")
	p := mustNew(t, policy.Config{
		Key: []policy.KeyPart{part(policy.ClientIP, ""), part(policy.Header, "X-User")},
		Overrides: []policy.Override{
			{Key: []string{"::ffff:203.0.113.7", "bob"}, Limits: []weir.Limit{vip, ten[0]}},
			{Key: []string{"203.0.113.7", ""}, Limits: []weir.Limit{anonymous}},
			{Key: []string{"2001:db8::/64", strings.Repeat("x", 200)}, Limits: []weir.Limit{net6}},
		},
	})
	user := func(ip, name string) request {
		return request{ip: ip, header: map[string][]string{"X-User": {name}}}
	}
	for _, tc := range []struct {
		r    request
		want []weir.Limit
	}{
		{user("203.0.113.7", "bob"), []weir.Limit{vip, ten[0]}},
		{user("203.0.113.7", ""), []weir.Limit{anonymous}},
		{user("203.0.113.7", "eve"), ten},
		{user("2001:db8::77", strings.Repeat("x", 200)), []weir.Limit{net6}},
	} {
		var q policy.Questions
		n := mustSet(t, p).Ask(&q, tc.r)
		var got []weir.Limit
		for _, r := range q.Requests {
			got = append(got, r.Limit)
		}
		if n != len(tc.want) || !slices.EqualFunc(got, tc.want, weir.Limit.Equal) {
			t.Errorf("limits of %+v = %v, want %v", tc.r, got, tc.want)
		}
	}
}

func TestSetAsks(t *testing.T) {
	both := []weir.Limit{weir.MustLimit("10/s"), weir.MustLimit("100/m")}
	off := mustNew(t, policy.Config{Name: "off", Mode: policy.Off})
	shadow := mustNew(t, policy.Config{Name: "shadow", Mode: policy.Shadow, Limits: both})
	other := mustNew(t, policy.Config{Name: "other", Match: policy.Match{Paths: []string{"/other"}}})
	first := mustNew(t, policy.Config{Name: "first", Cost: 3, Limits: both})
	second := mustNew(t, policy.Config{Name: "second"})
	s := mustSet(t, off, shadow, other, first, second)

	var q policy.Questions
	for step := range 3 { // used again and again
		if got := s.Ask(&q, request{path: "/", ip: "192.0.2.1"}); got != 3 {
			t.Fatalf("step %d: Ask = %d enforced requests, want 3", step, got)
		}
		var names []string
		for _, a := range q.Asks {
			names = append(names, fmt.Sprintf("%s[%d:%d]", a.Policy.Name(), a.From, a.To))
			for _, r := range q.Requests[a.From:a.To] {
				if err := r.Validate(); err != nil || r.Key != a.Key || r.N != a.Policy.Config().Cost || r.Verb != weir.Take {
					t.Errorf("step %d: request %+v of %s (%v), want a valid Take of its cost and key", step, r, a.Policy.Name(), err)
				}
			}
		}
		if got, want := strings.Join(names, " "), "first[0:2] second[2:3] shadow[3:5]"; got != want {
			t.Errorf("step %d: asks = %s, want %s", step, got, want)
		}
	}
	if s.Policy("first") != first || s.Policy("none") != nil || len(s.Policies()) != 5 {
		t.Error("Policy or Policies do not give what the set was made of")
	}
	if n := new(policy.Set).Ask(&q, request{}); n != 0 || len(q.Asks) != 0 {
		t.Errorf("the zero Set asks %d requests and %d policies, want none", n, len(q.Asks))
	}
}

func TestNewSetErrors(t *testing.T) {
	p := mustNew(t, policy.Config{Name: "p"})
	if _, err := policy.NewSet(p, p); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), `name: "p"`) {
		t.Errorf("NewSet of one name twice = %v, want an error that names it", err)
	}
	var many []*policy.Policy
	for i := range 3 {
		var limits []weir.Limit
		for j := range 100 {
			limits = append(limits, weir.MustLimit(fmt.Sprintf("%d/s", j+1)))
		}
		many = append(many, mustNew(t, policy.Config{Name: fmt.Sprint("p", i), Limits: limits}))
	}
	if _, err := policy.NewSet(many...); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "at most 256") {
		t.Errorf("NewSet of 300 limits = %v, want an error that names the most", err)
	}
	if _, err := policy.NewSet(many[:2]...); err != nil {
		t.Errorf("NewSet of 200 limits = %v, want none", err)
	}
}

func TestParseKeyPart(t *testing.T) {
	for _, text := range []string{"client.ip", "client.ip/56", "header:X-Api-Key", "query:a:b", "cookie:sid", "path", "method", "host", "const:all"} {
		k, err := policy.ParseKeyPart(text)
		if err != nil || k.String() != text {
			t.Errorf("ParseKeyPart(%q) = %q, %v, want it back", text, k, err)
		}
	}
	for _, text := range []string{
		"", "ip", "client.ip/", "client.ip:56", "client.ip/x", "header", "header:", "header:a b", "path:x", "path:", "const:", "host:", "Client.IP", "query:\x00",
	} {
		if k, err := policy.ParseKeyPart(text); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("ParseKeyPart(%q) = %q, %v, want an error that wraps weir.ErrInvalid", text, k, err)
		}
	}
}

func TestAskAllocates(t *testing.T) {
	s := mustSet(t, mustNew(t, policy.Config{Match: policy.Match{Methods: []string{"GET"}, Hosts: []string{"a.example"}, Paths: []string{"/api/{id}/x"}}}))
	var a policy.Attributes = request{method: "GET", host: "a.example:80", path: "/api/7/x", ip: "203.0.113.7"}
	var q policy.Questions
	if got := testing.AllocsPerRun(1000, func() { s.Ask(&q, a) }); got > 2 {
		t.Errorf("Ask allocates %v times, want at most 2: the key and the test's address", got)
	}
	if len(q.Asks) != 1 {
		t.Fatal("the policy does not match")
	}
}

// FuzzSpelling: escaping any letters of a path and repeating slashes changes neither
// whether it matches nor its key.
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
		var q policy.Questions
		ask := func(path string) string {
			s.Ask(&q, request{path: path})
			if len(q.Asks) == 0 {
				return ""
			}
			return q.Asks[0].Key
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
