package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// TestClientIP checks the buckets of addresses.
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
	var q policy.Matches
	for range 100_000 {
		s.Match(&q, request{ip: fmt.Sprintf("2001:db8:1:2:%x:%x:%x:%x", rand.N(1<<16), rand.N(1<<16), rand.N(1<<16), rand.N(1<<16))})
		buckets[q.Charges[0].Key] = true
	}
	if len(buckets) != 1 {
		t.Errorf("100000 addresses of one /64 have %d buckets, want 1", len(buckets))
	}
}

// TestAnonymous checks that requests without a value share one bucket.
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

// TestCredentials checks that the case of the scheme of Authorization does not select
// another bucket, and that credentials keep their case.
func TestCredentials(t *testing.T) {
	strict := weir.MustLimit("1/h")
	p := mustNew(t, policy.Config{
		Key:       []policy.KeyPart{part(policy.Header, "authorization")},
		Overrides: []policy.Override{{Key: []string{"BEARER  vip"}, Limits: []weir.Limit{strict}}},
	})
	for value, want := range map[string]string{
		"Bearer K": "p|8:bearer K", "bearer K": "p|8:bearer K", "BEARER   K ": "p|8:bearer K", "Bearer\tK": "p|8:bearer K",
		"Bearer k": "p|8:bearer k", "Basic K": "p|7:basic K", "K": "p|1:K",
	} {
		if k, _ := keyOf(t, p, request{header: map[string][]string{"Authorization": {value}}}); k != want {
			t.Errorf("key of %q = %q, want %q", value, k, want)
		}
	}
	var q policy.Matches
	mustSet(t, p).Match(&q, request{header: map[string][]string{"Authorization": {"bearer vip"}}})
	if !q.Requests[0].Limit.Equal(strict) {
		t.Errorf("limit of bearer vip = %v, want its override", q.Requests[0].Limit)
	}
	p = mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "X-Token")}})
	if k, _ := keyOf(t, p, request{header: map[string][]string{"X-Token": {"A  B"}}}); k != "p|4:A  B" {
		t.Errorf("key of another header = %q, want it as it is", k)
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

// TestKeysDiffer checks that different values have different keys of at most 128 bytes.
func TestKeysDiffer(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "A"), part(policy.Header, "B")}})
	s := mustSet(t, p)
	pieces := []string{"", "a", "b", "|", ":", "1", "-", "|-", "1:a", "|1:a", "{", "}", "\r\n", "\x00", "😀", "#", "é", "e\u0301",
		strings.Repeat("x", 50), strings.Repeat("x", 100), strings.Repeat("x", 101)}
	seen := map[string]string{}
	var q policy.Matches
	random := func() string {
		return pieces[rand.N(len(pieces))] + pieces[rand.N(len(pieces))] + pieces[rand.N(len(pieces))]
	}
	for range 200_000 {
		a, b := random(), random()
		s.Match(&q, request{header: map[string][]string{"A": {a}, "B": {b}}})
		k := q.Charges[0].Key
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
	s.Match(&q, request{header: map[string][]string{"A": {strings.Repeat("x", 1<<20)}}})
	if k := q.Charges[0].Key; len(k) > 128 || !strings.HasPrefix(k, "p|#") {
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
		var q policy.Matches
		n := mustSet(t, p).Match(&q, tc.r)
		var got []weir.Limit
		for _, r := range q.Requests {
			got = append(got, r.Limit)
		}
		if n != len(tc.want) || !slices.EqualFunc(got, tc.want, weir.Limit.Equal) {
			t.Errorf("limits of %+v = %v, want %v", tc.r, got, tc.want)
		}
	}
}

func TestParseKeyPart(t *testing.T) {
	for _, text := range []string{"client.ip", "client.ip/56", "header:X-Api-Key", "query:a:b", "cookie:sid", "path", "method", "host", "const:all",
		"claim:sub", "claim:address.country", "claim:https://example.com/tenant", "claim:sub@X-Jwt-Payload", "claim:user@example@X-A"} {
		k, err := policy.ParseKeyPart(text)
		if err != nil || k.String() != text {
			t.Errorf("ParseKeyPart(%q) = %q, %v, want it back", text, k, err)
		}
	}
	for _, text := range []string{
		"", "ip", "client.ip/", "client.ip:56", "client.ip/x", "header", "header:", "header:a b", "path:x", "path:", "const:", "host:", "Client.IP", "query:\x00",
		"claim", "claim:", "claim:@X-A", "claim:sub@", "claim:sub@a b", "cel", "cel:", "cel:request.path",
	} {
		if k, err := policy.ParseKeyPart(text); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("ParseKeyPart(%q) = %q, %v, want an error that wraps weir.ErrInvalid", text, k, err)
		}
	}
}

func TestParseKeyPartReadsNoExpression(t *testing.T) {
	_, err := policy.ParseKeyPart("cel:request.path")
	if err == nil || !strings.Contains(err.Error(), `"cel:request.path"`) || !strings.Contains(err.Error(), "got an expression, which needs a compiler") {
		t.Errorf("ParseKeyPart of an expression = %v, want an error that names the compiler", err)
	}
}

// withBody is a request whose interface reads bodies.
type withBody struct {
	request
	form, json map[string]string
}

func (b withBody) Form(name string) string { return b.form[name] }
func (b withBody) JSON(path string) string { return b.json[path] }

// TestBodyKey checks the values of fields in bodies, and that interfaces without bodies have none.
func TestBodyKey(t *testing.T) {
	strict := weir.MustLimit("1/h")
	p := mustNew(t, policy.Config{
		Key:       []policy.KeyPart{part(policy.Form, "email"), part(policy.JSON, "user.email")},
		Overrides: []policy.Override{{Key: []string{"VIP@example.com", ""}, Limits: []weir.Limit{strict}}},
	})
	key := func(a policy.Attributes) (string, weir.Limit) {
		var q policy.Matches
		mustSet(t, p).Match(&q, a)
		return q.Charges[0].Key, q.Requests[0].Limit
	}
	for _, c := range []struct {
		a    policy.Attributes
		want string
	}{
		{request{}, "p|-|-"},
		{withBody{}, "p|-|-"},
		{withBody{form: map[string]string{"email": " ADA\x00\n"}}, "p|3:ada|-"},
		{withBody{form: map[string]string{"user.email": "a"}, json: map[string]string{"user.email": "É", "email": "b"}}, "p|-|2:é"},
	} {
		if got, _ := key(c.a); got != c.want {
			t.Errorf("key of %+v = %q, want %q", c.a, got, c.want)
		}
	}
	if _, l := key(withBody{form: map[string]string{"email": "vip@Example.com"}}); !l.Equal(strict) {
		t.Errorf("limit of vip = %v, want its override", l)
	}
	for text, ok := range map[string]bool{"form:user[email]": true, "json:a.b": true, "json:a": true, "form:": false, "json:": false, "json:.a": false, "json:a.": false, "json:a..b": false, "form": false,
		"json:a + b": false, "json:a+b": false, "json:a[0].b": false, `json:"a"`: false} {
		if _, err := policy.ParseKeyPart(text); (err == nil) != ok {
			t.Errorf("ParseKeyPart(%q) = %v", text, err)
		}
	}
}
