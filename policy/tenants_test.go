package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func tenantsOf(limit string, tenants ...policy.Tenant) policy.Config {
	return policy.Config{
		Name: "api", Key: []policy.KeyPart{{Source: policy.Header, Name: "X-Tenant"}},
		Limits: []weir.Limit{weir.MustLimit(limit)}, Tenants: tenants,
	}
}

func tenant(key string, weight, burst int64) policy.Tenant {
	return policy.Tenant{Key: []string{key}, Weight: weight, Burst: burst}
}

// TestTenants checks that all tenants use one state, each its own limit, and that keys without a
// tenant share that of *.
func TestTenants(t *testing.T) {
	acme := tenant("acme", 3, 100)
	acme.Ceil = weir.MustLimit("800/s")
	c := tenantsOf("1000/s burst 1000", acme, tenant("eu-*", 1, 50), tenant("*", 1, 50))
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ header, tenant, more string }{
		{"acme", "acme", "ceil acme"}, {"eu-1", "eu-*", ""}, {"eu-2", "eu-*", ""}, {"other", "*", ""}, {"", "*", ""}, {"*", "*", ""},
	} {
		var q policy.Matches
		set.Match(&q, tenantRequest{header: tc.header})
		l := q.Requests[0].Limit.Config().(weir.TenantBucket)
		more := ""
		for _, r := range q.Requests[1:] {
			more += r.Limit.Name()
		}
		if l.Tenant != tc.tenant || more != tc.more || q.Requests[0].Key != "api" || q.Requests[len(q.Requests)-1].Key != "api" {
			t.Errorf("%q: tenant %q of %q with %q, want %q of api with %q", tc.header, l.Tenant, q.Requests[0].Key, more, tc.tenant, tc.more)
		}
		if l.Count != 1000 || len(l.Tenants) != 3 {
			t.Errorf("%q: %+v, want all tenants of the limit", tc.header, l)
		}
		if again := weir.MustLimit(q.Requests[0].Limit.String()); !again.Equal(q.Requests[0].Limit) {
			t.Errorf("%s is read as %s", q.Requests[0].Limit, again)
		}
	}
}

type tenantRequest struct {
	policy.Attributes
	header string
}

func (r tenantRequest) Header(string) []string { return []string{r.header} }
func (r tenantRequest) Host() string           { return "" }
func (r tenantRequest) Path() string           { return "/" }
func (r tenantRequest) Method() string         { return "GET" }

// TestTenantsRefuse checks the errors of policies with tenants.
func TestTenantsRefuse(t *testing.T) {
	rest := tenant("*", 1, 10)
	for _, tc := range []struct {
		name   string
		change func(c *policy.Config)
		want   string
	}{
		{"fine", func(c *policy.Config) {}, ""},
		{"no *", func(c *policy.Config) { c.Tenants = c.Tenants[:1] }, `tenants: 1 tenant: want one with the key "*"`},
		{"sum of bursts", func(c *policy.Config) { c.Tenants[0].Burst = 91 }, "tenants[1].burst: 10: want at least 1, the cost of a request, and at most 100 in all tenants"},
		{"cost", func(c *policy.Config) { c.Cost = 11 }, "tenants[1].burst: 10: want at least 11"},
		{"weight", func(c *policy.Config) { c.Tenants[0].Weight = 0 }, "tenants[0].weight: 0: want 1 to 1000000"},
		{"twice", func(c *policy.Config) { c.Tenants = append(c.Tenants, tenant("a", 1, 1)) }, "tenants[2].key"},
		{"* twice", func(c *policy.Config) { c.Tenants = append(c.Tenants, tenant("*", 1, 1)) }, "tenants[2].key"},
		{"parts", func(c *policy.Config) { c.Tenants[0].Key = []string{"a", "b"} }, "tenants[0].key: 2 values: want 1"},
		{"ceil", func(c *policy.Config) { c.Tenants[0].Ceil = weir.MustLimit("5 concurrency") }, "tenants[0].ceil"},
		{"ceil below the minimum", func(c *policy.Config) { c.Tenants[0].Ceil = weir.MustLimit("1/m") }, "tenants[0].ceil"},
		{"window", func(c *policy.Config) { c.Limits = limits("100/s fixed_window") }, "limits[0]"},
		{"two limits", func(c *policy.Config) { c.Limits = limits("100/s", "1000/h") }, "limits: 2 limits"},
		{"blocked", func(c *policy.Config) { c.Limits, c.Block = nil, true }, "limits: 0 limits"},
		{"inexact", func(c *policy.Config) { c.Limits, c.Tenants[0].Weight = limits("7/24h burst 100000"), 999_983 }, "cannot be kept exactly"},
		{"overrides", func(c *policy.Config) { c.Overrides = []policy.Override{{Key: []string{"x"}, Limits: limits("1/s")}} }, "overrides"},
		{"candidate", func(c *policy.Config) { c.Candidate = limits("1/s") }, "candidate"},
		{"carry", func(c *policy.Config) { c.Carry = weir.CarryReset }, "carry"},
		{"count", func(c *policy.Config) { c.Count = policy.CountFailures }, ""},
		{"settle", func(c *policy.Config) { c.Settle.Header = "X-Cost" }, ""},
		{"by weight", func(c *policy.Config) { c.Weighted = true }, ""},
		{"credits", func(c *policy.Config) { c.Weighted, c.Tenants[0].Burst = true, 41 }, "at most 50 in all tenants, half of the burst of the limit"},
		{"by weight without tenants", func(c *policy.Config) { c.Weighted, c.Tenants = true, nil }, "surplus: weighted: want it only with tenants"},
		{"a thousand", func(c *policy.Config) {
			for i := range 998 {
				c.Tenants = append(c.Tenants, tenant(fmt.Sprint("t", i), int64(i+1), 1))
			}
			c.Limits = limits("2000/s burst 2000")
		}, ""},
		{"too many", func(c *policy.Config) { c.Tenants = make([]policy.Tenant, 1001) }, "want at most 1000"},
		{"by hand", func(c *policy.Config) {
			c.Limits, c.Tenants = limits("10/s tenant_bucket tenant a tenants a:1:1"), nil
		}, "and the field tenants"},
	} {
		c := tenantsOf("100/s", tenant("a", 1, 10), rest)
		tc.change(&c)
		_, err := policy.New(c)
		if got := strings.ReplaceAll(errorText(err), "\n", " "); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
