package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/floodweir/weir/policy"
)

// TestExcept checks which requests an exception of a policy exempts, and which one of a set does.
func TestExcept(t *testing.T) {
	plan := func(values ...string) map[string][]string { return map[string][]string{"X-Plan": values} }
	preflight := map[string][]string{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}
	for _, tc := range []struct {
		about  string
		except policy.Exception
		r      request
		exempt bool
	}{
		{"path", policy.Exception{Paths: []string{"/health", "/assets/*"}}, request{path: "/Health/"}, true},
		{"another path", policy.Exception{Paths: []string{"/health"}}, request{path: "/healthy"}, false},
		{"path that servers read in two ways", policy.Exception{Paths: []string{"/assets/*"}}, request{path: "/assets/..%2fapi"}, false},
		{"method", policy.Exception{Methods: []string{"get"}}, request{method: "HEAD", path: "/"}, true},
		{"host", policy.Exception{Hosts: []string{"*.internal"}}, request{host: "a.internal:80", path: "/"}, true},
		{"address", policy.Exception{IPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, request{path: "/", ip: "10.2.3.4"}, true},
		{"another address", policy.Exception{IPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, request{path: "/", ip: "11.2.3.4"}, false},
		{"unknown address", policy.Exception{IPs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}, request{path: "/"}, false},
		{"header", policy.Exception{Headers: plan("gold")}, request{path: "/", header: plan("gold")}, true},
		{"header with two values", policy.Exception{Headers: plan("gold")}, request{path: "/", header: plan("gold", "free")}, false},
		{"no header", policy.Exception{Headers: plan("*")}, request{path: "/"}, false},
		{"only one of two lists", policy.Exception{Paths: []string{"/health"}, Methods: []string{"GET"}}, request{path: "/health", method: "POST"}, false},
		{"preflight", policy.Exception{Preflight: true}, request{path: "/", method: "OPTIONS", header: preflight}, true},
		{"GET with the headers of a preflight", policy.Exception{Preflight: true}, request{path: "/", method: "GET", header: preflight}, false},
		{"OPTIONS without Origin", policy.Exception{Preflight: true}, request{path: "/", method: "OPTIONS"}, false},
	} {
		own := mustSet(t, mustNew(t, policy.Config{Except: []policy.Exception{{Paths: []string{"/never"}}, tc.except}}))
		all, err := mustSet(t, mustNew(t, policy.Config{}), mustNew(t, policy.Config{Name: "q"})).Exempt(tc.except)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []*policy.Set{own, all, all.WithPrevious(own)} {
			var q policy.Matches
			set.Match(&q, tc.r)
			if got := len(q.Charges) == 0; got != tc.exempt {
				t.Errorf("%s: exempt = %t, want %t", tc.about, got, tc.exempt)
			}
			for _, c := range set.Explain(&q, tc.r) {
				if (c.Missed == "except") != tc.exempt {
					t.Errorf("%s: Explain: missed by %q, exempt = %t", tc.about, c.Missed, tc.exempt)
				}
			}
		}
	}
	_, err := new(policy.Set).Exempt(policy.Exception{}, policy.Exception{Paths: []string{"x"}, IPs: make([]netip.Prefix, 1)})
	for _, want := range []string{"except[0]: want paths", `except[1].paths[0]: "x"`, "except[1].ips[0]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Exempt = %v, want an error with %s", err, want)
		}
	}
}
