package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// zoned returns a policy of the zone perip for a path.
func zoned(tb testing.TB, name, path, limit string, change func(*policy.Config)) *policy.Policy {
	tb.Helper()
	c := policy.Config{
		Name: name, Zone: "perip", Match: policy.Match{Paths: []string{path}},
		Key: []policy.KeyPart{{Source: policy.Header, Name: "X-Key"}}, Limits: []weir.Limit{weir.MustLimit(limit)},
	}
	if change != nil {
		change(&c)
	}
	p, err := policy.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestZone checks that the policies of a zone have one key, and that a request is charged
// once in each zone.
func TestZone(t *testing.T) {
	const nginx = "10/s leaky_bucket nginx shared"
	a := zoned(t, "a", "/a/*", nginx, func(c *policy.Config) { c.Candidate = []weir.Limit{weir.MustLimit("1/s")} })
	b := zoned(t, "b", "/a/b/*", nginx+" burst 5 queue", nil)
	c := zoned(t, "c", "/*", nginx+" burst 9", func(c *policy.Config) { c.Mode = policy.Shadow })
	d := zoned(t, "perip", "/*", nginx, func(c *policy.Config) { c.Zone = "" })
	off := zoned(t, "off", "/*", nginx, func(c *policy.Config) { c.Mode = policy.Off })
	set, err := policy.NewSet(off, b, c, a, d)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/a/b": "b perip~zone|1:k perip perip|1:k", "/a": "perip perip|1:k c perip~zone|1:k",
	} {
		var q policy.Matches
		r := request{path: path, header: map[string][]string{"X-Key": {"k"}}}
		set.Match(&q, r)
		var got []string
		for _, a := range q.Charges {
			got = append(got, a.Policy.Name(), a.Key)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s asks %s, want %s", path, text, want)
		}
		for _, f := range set.Explain(&q, r) {
			if left := f.Missed == "nginx.zone"; left != (strings.HasPrefix(f.Policy.Name(), "a") || f.Policy == c && path == "/a/b") {
				t.Errorf("%s: %s does not match by %q", path, f.Policy.Name(), f.Missed)
			}
		}
	}
	if set, err = policy.NewSet(a); err != nil {
		t.Fatal(err)
	}
	var q policy.Matches
	set.Match(&q, request{path: "/a", header: map[string][]string{"X-Key": {"k"}}})
	if len(q.Charges) != 2 || q.Charges[1].Key != "a~candidate|1:k" || a.Bucket() != "perip~zone" || d.Bucket() != "perip" || q.Charges[1].Policy.Bucket() != "a~candidate" {
		t.Errorf("asks %+v, want the candidate outside of the zone", q.Charges)
	}
}

// TestZoneOverride checks that an override has a key of the zone.
func TestZoneOverride(t *testing.T) {
	p := zoned(t, "a", "/*", "10/s leaky_bucket nginx", func(c *policy.Config) {
		c.Overrides = []policy.Override{{Key: []string{"gold"}, Limits: []weir.Limit{weir.MustLimit("100/s")}}}
	})
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	var q policy.Matches
	set.Match(&q, request{path: "/", header: map[string][]string{"X-Key": {"gold"}}})
	if r := q.Requests[0]; r.Key != "perip~zone|4:gold" || r.Limit.Capacity() != 100 {
		t.Errorf("asks for %s under %v", r.Key, r.Limit)
	}
}

// TestZoneRefused checks policies that cannot share the state of a zone.
func TestZoneRefused(t *testing.T) {
	a := zoned(t, "a", "/*", "10/s leaky_bucket nginx shared", nil)
	for limit, want := range map[string]string{
		"20/s leaky_bucket nginx shared": `policy "b": nginx.zone: "perip": want one rate in a zone: here it is 20/s leaky_bucket nginx, in policy "a" it is 10/s leaky_bucket nginx`,
		"10/s leaky_bucket nginx":        "want one rate in a zone: here it is 10/s leaky_bucket burst 0 nginx, in",
		"10/s leaky_bucket shared":       "want one rate in a zone: here it is 10/s leaky_bucket, in",
		"10/s":                           "want one rate in a zone: here it is 10/s burst 10, in",
	} {
		_, err := policy.NewSet(a, zoned(t, "b", "/b/*", limit, nil))
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", limit, err, want)
		}
	}
	plain := zoned(t, "a", "/*", "10/s", nil)
	for limit, carry := range map[string]weir.Carry{"20/s": weir.CarryUsage, "10/s burst 5": weir.CarryUsage, "10/s": weir.CarryReset} {
		_, err := policy.NewSet(plain, zoned(t, "b", "/b/*", limit, func(c *policy.Config) { c.Carry = carry }))
		if err == nil || !strings.Contains(err.Error(), "in a zone: here it is "+weir.MustLimit(limit).String()) && !strings.Contains(err.Error(), "want usage in every policy of a zone") {
			t.Errorf("%s with carry %d beside 10/s: %v, want an error", limit, carry, err)
		}
	}
	other := zoned(t, "b", "/*", "10/s leaky_bucket nginx shared", func(c *policy.Config) { c.Key[0].Name = "X-Other" })
	if _, err := policy.NewSet(a, other); err == nil || !strings.Contains(err.Error(), `want one key in a zone: here it is header:X-Other, in policy "a" it is header:X-Key`) {
		t.Errorf("another key: %v", err)
	}
	const wider = `policy "b": nginx.zone: "perip": want a narrower match before a wider one: a request counts once in a zone, and policy "a" is asked`
	off := func(c *policy.Config) { c.Mode = policy.Off }
	posts := func(c *policy.Config) { c.Match.Methods = []string{"POST"} }
	same := "10/s leaky_bucket nginx burst 3 shared"
	for name, test := range map[string]struct {
		before, after *policy.Policy
		refused       bool
	}{
		"the same":        {a, zoned(t, "b", "/*", same, nil), true},
		"narrower":        {a, zoned(t, "b", "/*", same, posts), true},
		"wider":           {zoned(t, "a", "/*", same, posts), zoned(t, "b", "/*", same, nil), false},
		"another":         {a, zoned(t, "b", "/b", same, nil), false},
		"all requests":    {zoned(t, "a", "", same, func(c *policy.Config) { c.Match = policy.Match{} }), zoned(t, "b", "/b", same, nil), true},
		"one that is off": {zoned(t, "a", "/*", same, off), zoned(t, "b", "/*", same, nil), false},
		"and is off":      {a, zoned(t, "b", "/*", same, off), false},
	} {
		if _, err := policy.NewSet(test.before, test.after); test.refused != (err != nil) || err != nil && !strings.HasPrefix(err.Error(), wider) {
			t.Errorf("%s: %v, refused %v", name, err, test.refused)
		}
	}
	for name, overrides := range map[string][]policy.Override{
		"another rate": {{Key: []string{"gold"}, Limits: []weir.Limit{weir.MustLimit("30/s leaky_bucket nginx shared")}}},
		"another key":  {{Key: []string{"g*"}, Limits: []weir.Limit{weir.MustLimit("20/s leaky_bucket nginx shared")}}},
		"none":         nil,
		"":             {{Key: []string{"gold"}, Limits: []weir.Limit{weir.MustLimit("20/s leaky_bucket nginx shared burst 8")}}},
	} {
		gold := func(c *policy.Config) {
			c.Overrides = []policy.Override{{Key: []string{"gold"}, Limits: []weir.Limit{weir.MustLimit("20/s leaky_bucket nginx shared")}}}
		}
		_, err := policy.NewSet(zoned(t, "a", "/a", same, gold), zoned(t, "b", "/b", same, func(c *policy.Config) { c.Overrides = overrides }))
		if name == "" && err != nil || name != "" && (err == nil || !strings.Contains(err.Error(), "want the same overrides in a zone")) {
			t.Errorf("overrides, %s: %v", name, err)
		}
	}
	_, err := policy.New(policy.Config{
		Name: "a", Zone: "a b", Key: []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("1/s leaky_bucket shared"), weir.MustLimit("1/s leaky_bucket burst 5 queue shared")},
	})
	for _, want := range []string{`nginx.zone: "a b": want 1 to 64`, "limits[1]: \"1/s leaky_bucket burst 5 queue shared\": want one leaky bucket of a rate"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestZoneWithPrevious checks that a policy that enters a zone does not carry over its own
// keys.
func TestZoneWithPrevious(t *testing.T) {
	old, err := policy.NewSet(zoned(t, "a", "/*", "5/s leaky_bucket nginx", func(c *policy.Config) { c.Zone = "" }))
	if err != nil {
		t.Fatal(err)
	}
	for zone, carried := range map[string]bool{"": true, "perip": false} {
		set, err := policy.NewSet(zoned(t, "a", "/*", "10/m leaky_bucket nginx", func(c *policy.Config) { c.Zone = zone }))
		if err != nil {
			t.Fatal(err)
		}
		var q policy.Matches
		set.WithPrevious(old).Match(&q, request{path: "/"})
		if got := len(q.Requests[0].From) > 0; got != carried {
			t.Errorf("zone %q: carries over %v, want %v", zone, got, carried)
		}
	}
}

// TestZonePairs checks that a limit with the same state is the successor, at any position.
func TestZonePairs(t *testing.T) {
	set := func(limits ...string) *policy.Set {
		set, err := policy.NewSet(zoned(t, "a", "/*", limits[0], func(c *policy.Config) {
			for _, l := range limits[1:] {
				c.Limits = append(c.Limits, weir.MustLimit(l))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	old := set("10/s leaky_bucket shared burst 5", "20/s leaky_bucket shared burst 5", "5/s leaky_bucket shared")
	now := set("20/s leaky_bucket shared burst 9", "1/s leaky_bucket shared", "10/s leaky_bucket shared burst 9").WithPrevious(old)
	var q policy.Matches
	now.Match(&q, request{path: "/"})
	var got []string
	for _, r := range q.Requests {
		for _, from := range r.From {
			if from.Spec().State != r.Limit.Spec().State {
				got = append(got, r.Limit.Spec().State+" from "+from.Spec().State)
			}
		}
	}
	if text := strings.Join(got, ", "); text != "1/s leaky_bucket from 5/s leaky_bucket" {
		t.Errorf("carries over %s", text)
	}
}
