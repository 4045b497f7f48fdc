package policy_test

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A request has the Attributes of a test.
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

// tokens is a meter with a bound of 5,096 tokens for an empty request.
var tokens, _ = budget.NewMeter(budget.MeterConfig{Unit: budget.Tokens})

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

// keyOf returns the key of r under p, and whether p matches.
func keyOf(t testing.TB, p *policy.Policy, r request) (string, bool) {
	t.Helper()
	var q policy.Matches
	mustSet(t, p).Match(&q, r)
	if len(q.Charges) == 0 {
		return "", false
	}
	return q.Charges[0].Key, true
}

func TestNewFillsDefaultsIn(t *testing.T) {
	c := mustNew(t, policy.Config{}).Config()
	if c.Cost != 1 || c.Mode != policy.Enforce || c.OnStoreError != policy.Local || c.OnDenied.Status != 429 || !c.OnDenied.IsProblem() {
		t.Errorf("Config() = %+v, want cost 1, enforce, local, 429 and problem+json", c)
	}
	c = mustNew(t, policy.Config{OnDenied: policy.OnDenied{Body: "slow down"}}).Config()
	if got, want := c.OnDenied.ContentType, "text/plain; charset=utf-8"; got != want {
		t.Errorf("ContentType of a text = %q, want %q", got, want)
	}
}

// TestNewErrors compares all errors with testdata/errors.golden.
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
		{"methods that no request has", func(c *policy.Config) {
			c.Match.Methods = []string{"!GET", "*", "GTE", "optoins", "P*", "PURGE", "FETCH", "propfind"}
		}},
		{"headers with an exclamation mark", func(c *policy.Config) {
			c.Match.Headers = map[string][]string{"X-Plan": {"!free", "!", "free"}}
		}},
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
		{"a host that clients choose", func(c *policy.Config) { c.Key = []policy.KeyPart{part(policy.Host, "")} }},
		{"too many keys", func(c *policy.Config) {
			c.Key = nil
			for i := range 17 {
				c.Key = append(c.Key, part(policy.Constant, fmt.Sprint(i)))
			}
		}},
		{"limits", func(c *policy.Config) {
			c.Limits = []weir.Limit{weir.MustLimit("10/s"), {}, weir.MustLimit("10/s burst 10")}
		}},
		{"too many limits", func(c *policy.Config) { c.Limits = make([]weir.Limit, bounds.MaxBatch+1) }},
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
		{"mode", func(c *policy.Config) { c.Mode = "dry-run" }},
		{"percent", func(c *policy.Config) { c.Percent = 101 }},
		{"negative percent", func(c *policy.Config) { c.Percent = -1 }},
		{"percent of nothing", func(c *policy.Config) { c.Percent, c.Mode = 10, policy.Shadow }},
		{"percent of a policy that is off", func(c *policy.Config) { c.Percent, c.Mode = 10, policy.Off }},
		{"carry", func(c *policy.Config) { c.Carry = 9 }},
		{"count", func(c *policy.Config) { c.Count = "errors" }},
		{"count of slots", func(c *policy.Config) {
			c.Count, c.Limits = policy.CountAll, limits("10/s", "5 concurrency")
		}},
		{"count of a candidate's slots", func(c *policy.Config) { c.Count, c.Candidate = policy.CountFailures, limits("5 concurrency") }},
		{"count of an override's slots", func(c *policy.Config) {
			c.Count, c.Overrides = policy.CountSuccesses, []policy.Override{{Key: []string{"1.2.3.4"}, Limits: limits("5 concurrency")}}
		}},
		{"failures", func(c *policy.Config) {
			c.Count, c.Failures = policy.CountFailures, [][2]int{{500, 599}, {99, 500}, {500, 600}, {500, 499}, {}}
		}},
		{"failures of nothing", func(c *policy.Config) { c.Failures = [][2]int{{500, 599}} }},
		{"settle twice", func(c *policy.Config) { c.Settle = policy.Settle{Header: "X-Cost", JSON: "cost"} }},
		{"settle of slots", func(c *policy.Config) { c.Settle.Header, c.Limits = "X-Cost", limits("5 concurrency") }},
		{"settle of slots by a meter", func(c *policy.Config) { c.Settle.Meter, c.Limits = tokens, limits("5000 concurrency") }},
		{"settle by a meter and JSON", func(c *policy.Config) { c.Settle.Meter, c.Settle.JSON, c.Limits = tokens, "a.b", limits("5000/s") }},
		{"settle by a meter above the capacity", func(c *policy.Config) { c.Settle.Meter = tokens }},
		{"settle of slots by JSON", func(c *policy.Config) { c.Settle.JSON, c.Limits = "a.b", limits("5 concurrency") }},
		{"settle header", func(c *policy.Config) { c.Settle.Header = "X Cost" }},
		{"settle JSON", func(c *policy.Config) { c.Settle.JSON = "usage..total" }},
		{"settle JSON that is no sum", func(c *policy.Config) { c.Settle.JSON = "usage.input_tokens * 2" }},
		{"settle JSON with half of a sum", func(c *policy.Config) { c.Settle.JSON = "usage.input_tokens +" }},
		{"settle JSON with a dot at its end", func(c *policy.Config) { c.Settle.JSON = "usage." }},
		{"candidate", func(c *policy.Config) { c.Candidate = []weir.Limit{{}, ten[0], weir.MustLimit("10/s burst 10")} }},
		{"candidate that is the policy", func(c *policy.Config) {
			c.Limits, c.Candidate = limits("10/s", "100/m"), limits("100/m", "10/s burst 10")
		}},
		{"candidate below the cost", func(c *policy.Config) { c.Cost, c.Candidate = 5, limits("4/s") }},
		{"too many candidates", func(c *policy.Config) { c.Candidate = make([]weir.Limit, bounds.MaxBatch+1) }},
		{"name of a candidate", func(c *policy.Config) { c.Name = "p~candidate" }},
		{"wait", func(c *policy.Config) { c.OnDenied.Wait = time.Minute + 1 }},
		{"negative wait", func(c *policy.Config) { c.OnDenied.Wait = -time.Second }},
		{"redirect with all that it has not", func(c *policy.Config) {
			c.OnDenied = policy.OnDenied{Redirect: "/a", Status: 301, Body: "x", ContentType: "text/html", Headers: map[string]string{"location": "/b"}}
		}},
		{"redirect with a problem", func(c *policy.Config) { c.OnDenied = policy.OnDenied{Redirect: "/a", Body: "problem+json"} }},
		{"claims and expressions", func(c *policy.Config) {
			c.Key = []policy.KeyPart{
				part(policy.Claim, ""), part(policy.Claim, "@X-A"), part(policy.Claim, "sub@"), part(policy.Claim, "sub@X A"), part(policy.Claim, "a\n"),
				part(policy.CEL, ""), part(policy.CEL, "x"), {Source: policy.CEL, Name: "x", Of: says("a")},
				{Source: policy.Header, Name: "X-A", Of: says("a")}, part(policy.Claim, "sub"), part(policy.Claim, "sub"),
			}
		}},
		{"overrides", func(c *policy.Config) {
			c.Overrides = []policy.Override{
				{}, {Key: []string{"a", "b"}, Limits: ten}, {Key: []string{"1.2.3"}, Limits: ten}, {Key: []string{"10.0.0.0/8"}, Limits: ten},
				{Key: []string{"2001:db8::/48"}, Limits: ten}, {Key: []string{"fe80::1%eth0"}, Limits: ten}, {Key: []string{"1.2.3.4"}},
				{Key: []string{"2001:db8::1"}, Limits: ten}, {Key: []string{"2001:db8::2"}, Limits: ten}, {Key: []string{"1.2.3.4"}, Limits: []weir.Limit{{}}},
				{Key: []string{"::ffff:1.2.3.4/128"}, Limits: ten},
			}
		}},
		{"overrides of other parts", func(c *policy.Config) {
			c.Match.Paths, c.Match.Hosts = []string{"/a/*"}, []string{"*.example.com"}
			c.Key = []policy.KeyPart{part(policy.Path, ""), part(policy.Method, ""), part(policy.Host, ""), part(policy.Constant, "x"), part(policy.Header, "X-A")}
			for i, bad := range []string{"/a/b", "BREW", "*.example.com", "y", " a "} {
				key := []string{"/a/*", "GET", "example.com", "x", "a"}
				key[i] = bad
				c.Overrides = append(c.Overrides, policy.Override{Key: key, Limits: ten})
			}
		}},
		{"too many overrides", func(c *policy.Config) { c.Overrides = make([]policy.Override, 100_000+1) }},
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

func TestRedirects(t *testing.T) {
	redirect := func(to string) error {
		_, err := policy.New(policy.Config{Name: "p", Key: byIP, Limits: ten, OnDenied: policy.OnDenied{Redirect: to}})
		return err
	}
	for _, to := range []string{"/", "/wait?for=a%20while#x", "https://example.com", "http://example.com:8080/a", "https://[::1]/", "HTTPS://example.com/"} {
		if err := redirect(to); err != nil {
			t.Errorf("redirect to %q = %v, want none", to, err)
		}
	}
	for _, to := range []string{
		"//evil.example", "/\\evil.example", "\\\\evil.example", "wait", "ftp://a", "javascript:alert(1)", "https:", "https://", "https:///a", "https://:80/",
		"https://a:b@c/", "/a b", "/a\r\nX-A: b", "/\x00", "/é", "/%zz", "?a=b", "#a", "/\t/evil.example", " /", "/" + strings.Repeat("a", 1024), "/<x>", "https://a b/",
	} {
		if err := redirect(to); err == nil || !strings.Contains(err.Error(), "on_denied.redirect: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("redirect to %q = %v, want one error of on_denied.redirect", to, err)
		}
	}
}

func TestErrorSaysEveryField(t *testing.T) {
	_, err := policy.New(policy.Config{Name: "p", Key: byIP, Limits: ten, Mode: "x", Cost: -1})
	var errs fault.Errors
	if !errors.As(err, &errs) || len(errs) != 2 {
		t.Fatalf("New = %v, want two Errors", err)
	}
	if e := errs[0]; e.Policy != "p" || e.Field != "cost" || e.Value != "-1" || e.Want == "" {
		t.Errorf("first error = %+v, want policy p, field cost, value -1", e)
	}
}
