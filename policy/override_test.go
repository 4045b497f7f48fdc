package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// limited returns a policy by key whose i-th override has i+1 per hour; other keys have
// 1000.
func limited(t testing.TB, c policy.Config, keys ...[]string) *policy.Policy {
	t.Helper()
	c.Limits = []weir.Limit{weir.MustLimit("1000/h")}
	for i, key := range keys {
		c.Overrides = append(c.Overrides, policy.Override{Key: key, Limits: []weir.Limit{weir.MustLimit(fmt.Sprintf("%d/h", i+1))}})
	}
	return mustNew(t, c)
}

// overrideOf returns the number of the override for r, from 1, or 1000.
func overrideOf(t testing.TB, p *policy.Policy, r request) int64 {
	t.Helper()
	_, rs := chargeOf(t, p, r)
	return rs[0].Limit.Capacity()
}

func TestWildcardsOfText(t *testing.T) {
	p := limited(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "X-A")}},
		[]string{"free-*"}, []string{"*-free"}, []string{"a*b*c"}, []string{"free-bob"}, []string{""}, []string{"**x**"}, []string{"é*"}, []string{"*"})
	for value, want := range map[string]int64{
		"free-": 1, "free-bob": 4, "free-bobby": 1, "free-free": 1, "x-free": 2, "-free": 2, "abc": 3, "aXbXc": 3, "abcbc": 3, "ab": 8, "acb": 8, "ac": 8,
		"": 5, "x": 6, "axb": 6, "abxcb": 6, "é": 7, "\xc3": 8, "FREE-y": 8, "a*b": 8, "free-" + strings.Repeat("y", 200): 1,
		strings.Repeat("y", 8<<10-5) + "-free": 2, strings.Repeat("y", 8<<10) + "-free": 8,
	} {
		if got := overrideOf(t, p, request{header: map[string][]string{"X-A": {value}}}); got != want {
			t.Errorf("%.20q is overrideOf by override %d, want %d", value, got, want)
		}
	}
	p = limited(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "X-A")}}, []string{"*a"}, []string{"*"})
	if got := overrideOf(t, p, request{}); got != 2 {
		t.Errorf("none is overrideOf by override %d, want 2: * alone is any value and none", got)
	}
}

func TestWildcardsOfAddresses(t *testing.T) {
	p := limited(t, policy.Config{Key: []policy.KeyPart{part(policy.ClientIP, "56")}},
		[]string{"10.1.2.3"}, []string{"10.1.2.0/24"}, []string{"10.1.2.9/16"}, []string{"2001:db8::/32"}, []string{"2001:db8:0:0100::/56"}, []string{"2001:db8::/48"},
		[]string{"0.0.0.0/0"}, []string{"::/0"}, []string{"*"})
	for ip, want := range map[string]int64{
		"10.1.2.3": 1, "::ffff:10.1.2.3": 1, "10.1.2.4": 2, "10.1.3.4": 3, "10.2.0.1": 7, "::ffff:10.1.3.4": 3, "2001:db8:0:1ff::1": 5, "2001:db8:0:0::1%eth0": 4,
		"2001:db8:1::1": 4, "2001:db9::1": 8, "255.255.255.255": 7, "::": 8, "": 9,
	} {
		if got := overrideOf(t, p, request{ip: ip}); got != want {
			t.Errorf("%s is overrideOf by override %d, want %d", ip, got, want)
		}
	}
}

func TestWildcardsOfOtherParts(t *testing.T) {
	p := limited(t, policy.Config{
		Match: policy.Match{Paths: []string{"/a/*", "/b/{id}"}, Hosts: []string{"*.example.com", "example.com"}, Methods: []string{"GET", "PUT", "POST", "PURGE"}},
		Key: []policy.KeyPart{part(policy.Path, ""), part(policy.Method, ""), part(policy.Host, ""), part(policy.Constant, "a*b"), part(policy.Header, "Authorization"),
			part(policy.Claim, "sub"), {Source: policy.CEL, Of: ofHeader("X-A")}},
	},
		[]string{"/a/*", "GET", "a.example.com", "a*b", "", "", ""}, // exact: the stars are those of the pattern and the constant
		[]string{"/b*", "*", "*", "*", "*", "*", "*"},
		[]string{"*", "p*", "*", "a*", "*", "*", "*"},
		[]string{"*", "*", "*.A.Example.COM.", "a*b", "*", "*", "*"},
		[]string{"*", "*", "*", "*", "BASIC  x*", "*", "*"},
		[]string{"*", "*", "*", "*", "*", "b*b", "*"},
		[]string{"*", "*", "*", "*", "*", "*", "*z"},
	)
	for _, tc := range []struct {
		method, host, path, authorization, a string
		want                                 int64
	}{
		{"GET", "a.example.com", "/A/x", "", "", 1},
		{"GET", "b.example.com", "/b/7", "", "", 2},
		{"put", "b.example.com", "/a/7", "", "", 3},
		{"PURGE", "b.example.com", "/a/7", "", "", 3},
		{"GET", "b.a.example.com:80", "/a/7", "", "", 4},
		{"HEAD", "example.com", "/a/7", "basic xyz", "", 5},
		{"GET", "example.com", "/a/7", "Bearer " + token(`{"sub":"bob"}`), "", 6},
		{"GET", "example.com", "/a/7", "Bearer " + token(`{"sub":"eve"}`), "abz", 7},
		{"GET", "example.com", "/a/7", "Bearer " + token(`{"sub":"eve"}`), "", 1000},
	} {
		r := request{method: tc.method, host: tc.host, path: tc.path, header: map[string][]string{"Authorization": {tc.authorization}, "X-A": {tc.a}}}
		if got := overrideOf(t, p, r); got != tc.want {
			t.Errorf("%+v is overrideOf by override %d, want %d", tc, got, tc.want)
		}
	}
}

func TestOverrideErrors(t *testing.T) {
	override := func(keys ...string) (os []policy.Override) {
		for _, k := range keys {
			os = append(os, policy.Override{Key: strings.Split(k, ","), Limits: ten})
		}
		return os
	}
	two := []policy.KeyPart{part(policy.Header, "A"), part(policy.Header, "B")}
	for _, tc := range []struct {
		key       []policy.KeyPart
		overrides []policy.Override
		want      string // "" for none
	}{
		{two, override("a*,b", "a*,b*", "*a,b", "a,*", "*,a", "a,b", ",*", "*,"), ""},
		{two, override("a*b**c,b", "a**b*c,b"), `overrides[1].key: "a**b*c, b": want every key once: it is that of overrides[0] already`},
		{two, override("*,a", "**,a"), "overrides[1].key"},
		{byIP, override("10.0.0.1/8", "10.0.0.0/8"), "overrides[1].key"},
		{byIP, override("2001:db8::/65"), `overrides[0].key[0]: "2001:db8::/65": want a prefix of at most /64: the addresses of one share a bucket`},
		{byIP, override("10.0.0.0/33"), "overrides[0].key[0]"},
		{byIP, override("10.*"), "or * for any"},
		{byIP, override("fe80::%eth0/16"), "overrides[0].key[0]"},
		{byIP, override("::ffff:10.0.0.0/104"), "overrides[0].key[0]"},
		{[]policy.KeyPart{part(policy.Constant, "all")}, override("b*"), `want "all", the constant of the key`},
		{[]policy.KeyPart{part(policy.Method, "")}, override("P T*"), "want a method"},
		{[]policy.KeyPart{part(policy.Path, "")}, override("/b*"), "or a text with a * that fits one"},
		{[]policy.KeyPart{part(policy.Host, "")}, override("*.a:80"), "without a port"},
		{two[:1], override(strings.Repeat("a", 1024) + "*"), "want at most 1024 bytes"},
	} {
		c := policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/a"}, Hosts: []string{"a"}}, Key: tc.key, Limits: ten, Overrides: tc.overrides}
		_, err := policy.New(c)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("New with overrides %v = %v, want %q", tc.overrides, err, tc.want)
		}
	}
	c := policy.Config{Name: "p", Key: byIP, Limits: ten}
	for i := range 1000 + 2 {
		if i == 1000 {
			if _, err := policy.New(c); err != nil {
				t.Errorf("New with %d wildcards = %v, want none", i, err)
			}
		}
		c.Overrides = append(c.Overrides, policy.Override{Key: []string{fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}, Limits: ten})
	}
	_, err := policy.New(c)
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), `overrides[1000].key: "10.3.232.0/24": want at most 1000 overrides with a * or a prefix`) {
		t.Errorf("New with %d wildcards = %v, want one error that names the most", 1000+2, err)
	}
}

// TestWildcardTime checks that a value that almost matches takes no more time than reading
// it.
func TestWildcardTime(t *testing.T) {
	var keys [][]string
	for i := range 1000 {
		keys = append(keys, []string{strings.Repeat("*a", 500) + fmt.Sprintf("*b%d*c", i)})
	}
	p := limited(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "X-A")}}, keys...)
	s := mustSet(t, p)
	var q policy.Matches
	var r policy.Attributes = request{header: map[string][]string{"X-A": {strings.Repeat("a", 8<<10-1) + "c"}}}
	start := time.Now()
	s.Match(&q, r)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("1000 patterns of 500 stars against 8 KiB take %v, want milliseconds", took)
	}
	if got := q.Requests[0].Limit.Capacity(); got != 1000 {
		t.Errorf("overrideOf by override %d, want none", got)
	}
}

// fits is a slow model of patterns.
func fits(pattern, text string) bool {
	row := make([]bool, len(text)+1)
	row[0] = true
	for i := range len(pattern) {
		next := make([]bool, len(text)+1)
		for j := range next {
			if pattern[i] == '*' {
				next[j] = row[j] || j > 0 && next[j-1]
			} else {
				next[j] = j > 0 && row[j-1] && text[j-1] == pattern[i]
			}
		}
		row = next
	}
	return row[len(text)]
}

func checkFits(t *testing.T, pattern, text string) {
	t.Helper()
	c := policy.Config{Name: "p", Key: []policy.KeyPart{part(policy.Header, "X-A")}, Limits: ten,
		Overrides: []policy.Override{{Key: []string{pattern}, Limits: []weir.Limit{weir.MustLimit("1/h")}}}}
	p, err := policy.New(c)
	if err != nil {
		return
	}
	text = strings.TrimSpace(text)
	want := fits(pattern, text) && (text != "" || strings.Trim(pattern, "*") == "")
	if len(text) > 8<<10 {
		return
	}
	if got := overrideOf(t, p, request{header: map[string][]string{"X-A": {text}}}) == 1; got != want {
		t.Errorf("%q fits %q: %v, want %v", text, pattern, got, want)
	}
}

func TestWildcardsFitAsTheModel(t *testing.T) {
	random := func(letters string) string {
		b := make([]byte, rand.N(9))
		for i := range b {
			b[i] = letters[rand.N(len(letters))]
		}
		return string(b)
	}
	for range 20_000 {
		checkFits(t, random("ab**"), random("ab"))
	}
}

func FuzzWildcard(f *testing.F) {
	f.Add("a*b*c", "aXbXc")
	f.Add("*a*a*a*a*", "aaa")
	f.Add("**", "")
	f.Add("ab*ba", "aba")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) < 1000 && len(text) < 1000 {
			checkFits(t, pattern, text)
		}
	})
}
