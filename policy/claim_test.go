package policy_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floodweir/weir/policy"
)

func encoded(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

// token returns an unsigned token; the package does not verify signatures.
func token(payload string) string {
	return encoded(`{"alg":"HS256"}`) + "." + encoded(payload) + ".c2lnbmF0dXJl"
}

func bearer(token string) request {
	return request{header: map[string][]string{"Authorization": {"Bearer " + token}}}
}

func byClaim(name string) []policy.KeyPart { return []policy.KeyPart{part(policy.Claim, name)} }

func TestClaims(t *testing.T) {
	const payload = `{"sub":"bob","n":42,"yes":true,"no":false,"nil":null,"list":["a"],"obj":{},"":"empty name","void":"","s p":" x ",
		"address":{"country":"NZ","geo":{"lat":-36.850,"a.b":"dotted"}},"a.b":"whole","a":{"b":"path"},"c.d":null,"c":{"d":"path"},
		"https://example.com/tenant":"acme","user@example":"at","esc\u0061pe":"\u00e9\n","half":"\ud800","e":"1\u0000"}`
	for name, want := range map[string]string{
		"sub": "bob", "n": "42", "yes": "true", "no": "false", "nil": "", "list": "", "obj": "", "void": "", "s p": " x ", "none": "", "Sub": "",
		"address.country": "NZ", "address.geo.lat": "-36.85", "address": "", "address.": "", "address.none": "", "address.country.x": "", "list.0": "",
		"address.geo.a.b": "", "a.b": "whole", "c.d": "", "https://example.com/tenant": "acme", "user@example@Authorization": "at",
		"escape": "é\n", "half": "", "e": "1\x00", ".": "", "sub.": "",
	} {
		p := mustNew(t, policy.Config{Key: byClaim(name)})
		wanted := "p|-"
		if want != "" {
			wanted = fmt.Sprintf("p|%d:%s", len(want), want)
		}
		if k, ok := keyOf(t, p, bearer(token(payload))); !ok || k != wanted {
			t.Errorf("key by claim %s = %q, want %q", name, k, wanted)
		}
	}
}

func TestClaimNumbers(t *testing.T) {
	p := mustNew(t, policy.Config{Key: byClaim("n")})
	for _, same := range []struct {
		want string
		n    []string
	}{
		{"0", []string{"0", "-0", "0.0", "0e9", "-0.00E-5"}},
		{"42", []string{"42", "42.0", "4.2e1", "420e-1", "0.42E+2"}},
		{"-42", []string{"-42", "-42.00"}},
		{"9007199254740993", []string{"9007199254740993", "9007199254740993.0"}},
		{"1.5", []string{"1.5", "15e-1", "0.15e1"}},
		{"0.05", []string{"0.05", "5e-2"}},
		{"100000000000000000000", []string{"1e20", "100000000000000000000"}},
		{"1e21", []string{"1e21", "1000000000000000000000"}},
		{"1e-22", []string{"1e-22"}},
		{"1e1000000", []string{"1e1000000", "10e999999"}},
		{"", []string{"1e99999999999999999999", "01", "1.", ".5", "+1", "0x1", "NaN", "--1", "1e"}},
	} {
		for _, n := range same.n {
			want := "p|-"
			if same.want != "" {
				want = fmt.Sprintf("p|%d:%s", len(same.want), same.want)
			}
			if k, _ := keyOf(t, p, bearer(token(`{"n":`+n+`}`))); k != want {
				t.Errorf("key by the number %s = %q, want %q", n, k, want)
			}
		}
	}
}

// TestClaimFaults checks that the claim of a malformed token is the anonymous part.
func TestClaimFaults(t *testing.T) {
	good := token(`{"sub":"bob"}`)
	authorization := func(values ...string) request { return request{header: map[string][]string{"Authorization": values}} }
	p := mustNew(t, policy.Config{Key: byClaim("sub")})
	for _, r := range []request{
		authorization("bearer " + good), authorization("BEARER \t" + good + " "), authorization("Bearer "+good, " Bearer "+good),
		bearer(strings.Replace(good, ".c2", "==.c2", 1)),
	} {
		if k, _ := keyOf(t, p, r); k != "p|3:bob" {
			t.Errorf("key of %v = %q, want bob's", r.header, k)
		}
	}
	long := token(`{"sub":"bob","x":"` + strings.Repeat("x", 16<<10) + `"}`)
	for _, r := range []request{
		{}, authorization(""), authorization("Bearer"), authorization("Bearer "), authorization(good), authorization("Basic " + good),
		authorization("Bearer "+good, "Bearer "+token(`{"sub":"eve"}`)), bearer("a.b"), bearer(good + ".x"), bearer("." + good), bearer(good + "."),
		bearer(encoded(`{"sub":"bob"}`)), bearer("." + encoded(`{"sub":"bob"}`) + "."), bearer("x." + encoded(`{"sub":"bob"}`) + "."), bearer("x..y"),
		bearer("x." + encoded(`{"sub":"bob"`) + ".y"), bearer("x." + encoded(`["sub"]`) + ".y"), bearer("x." + encoded(`null`) + ".y"),
		bearer("x." + encoded("{\"sub\":\"bob\xff\"}") + ".y"), bearer("x." + encoded(`{"sub":"bob"}{}`) + ".y"), bearer("x.!!!.y"),
		bearer("x." + base64.StdEncoding.EncodeToString([]byte(`{"sub":"bob","x":"???>>>"}`)) + ".y"), bearer(long),
		bearer("x." + encoded(`{"sub":"bob"}`)[:4] + "\r\n" + encoded(`{"sub":"bob"}`)[4:] + ".y"),
		bearer("x." + encoded(strings.Repeat(`{"sub":`, 10_000)) + ".y"),
	} {
		if k, ok := keyOf(t, p, r); !ok || k != "p|-" {
			t.Errorf("key of %.100v = %q, %v, want the anonymous part", r.header, k, ok)
		}
	}
}

// TestClaimOfAnotherHeader checks a header with a token, and with its payload alone.
func TestClaimOfAnotherHeader(t *testing.T) {
	p := mustNew(t, policy.Config{Key: byClaim("sub@x-jwt-payload")})
	payload := `{"sub":"bob?"}`
	for value, want := range map[string]string{
		encoded(payload): "p|4:bob?", base64.URLEncoding.EncodeToString([]byte(payload)): "p|4:bob?", token(payload): "p|4:bob?",
		payload: "p|-", "Bearer " + token(payload): "p|-", "": "p|-", "a.b": "p|-", encoded(payload) + "===": "p|-",
	} {
		if k, _ := keyOf(t, p, request{header: map[string][]string{"X-Jwt-Payload": {value}, "Authorization": {"Bearer " + token(`{"sub":"eve"}`)}}}); k != want {
			t.Errorf("key of %q = %q, want %q", value, k, want)
		}
	}
}

// FuzzClaim checks that no token makes the reader panic, that a claim equals the value that
// encoding/json reads, and that keys are short.
func FuzzClaim(f *testing.F) {
	for _, s := range []string{"Bearer " + token(`{"sub":"bob"}`), "Bearer x.e30.y", "bearer a.b.c", token(`{"sub":1e5}`), "Bearer ..", ""} {
		f.Add(s, "sub")
	}
	f.Add("Bearer "+token(`{"a":{"b":[]},"a.b":-0.0}`), "a.b")
	f.Add(encoded(`{"sub":true}`), "sub@X-T")
	f.Fuzz(func(t *testing.T, value, name string) {
		p, err := policy.New(policy.Config{Name: "p", Limits: ten, Key: byClaim(name)})
		if err != nil {
			return
		}
		k, ok := keyOf(t, p, request{header: map[string][]string{"Authorization": {value}, "X-T": {value}}})
		if !ok || len(k) > 128 || !strings.HasPrefix(k, "p|") {
			t.Fatalf("key of %q by %q = %q, %v", value, name, k, ok)
		}
		parts := strings.Split(strings.TrimSpace(value), ".")
		if k == "p|-" || len(parts) != 3 || strings.Contains(name, ".") || strings.HasPrefix(k, "p|#") {
			return
		}
		payload, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
		name, _, _ = strings.Cut(name, "@")
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatalf("key of %q = %q, but its payload is not JSON: %v", value, k, err)
		}
		if s, ok := claims[name].(string); ok && k != fmt.Sprintf("p|%d:%s", len(s), s) {
			t.Fatalf("key of %q by %q = %q, want %q", value, name, k, s)
		}
	})
}

// TestClaimKeysDiffer checks that different claims and different texts of expressions have
// different keys.
func TestClaimKeysDiffer(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{
		part(policy.Claim, "a"), {Source: policy.CEL, Of: ofHeader("X-A")}, part(policy.Claim, "b.c@X-T"), {Source: policy.CEL, Of: ofHeader("X-B")},
	}})
	s := mustSet(t, p)
	pieces := []string{"", "a", "|", ":", "1", "-", "|-", "1:a", "\x00", "😀", "#", "\"", "\\", strings.Repeat("x", 50), strings.Repeat("x", 101)}
	random := func() string { return pieces[rand.N(len(pieces))] + pieces[rand.N(len(pieces))] }
	seen := map[string][4]string{}
	var q policy.Matches
	for range 50_000 {
		v := [4]string{random(), random(), random(), random()}
		a, _ := json.Marshal(map[string]any{"a": v[0]})
		b, _ := json.Marshal(map[string]any{"b": map[string]any{"c": v[2]}})
		r := bearer(token(string(a)))
		r.header["X-T"], r.header["X-A"], r.header["X-B"] = []string{encoded(string(b))}, []string{v[1]}, []string{v[3]}
		s.Match(&q, r)
		k := q.Charges[0].Key
		if other, ok := seen[k]; ok && other != v {
			t.Fatalf("key %q is that of %q and of %q", k, v, other)
		}
		seen[k] = v
	}
	if len(seen) < 10_000 {
		t.Fatalf("only %d different keys were tried", len(seen))
	}
}
