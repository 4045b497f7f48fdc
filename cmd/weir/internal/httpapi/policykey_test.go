package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A plan is an expression with the value of a header in upper case.
type plan struct{}

func (plan) Eval(a policy.Attributes) (string, error) {
	return strings.ToUpper(strings.Join(a.Header("X-Plan"), "")), nil
}
func (plan) String() string { return "plan" }

// never matches no request.
type never struct{}

func (never) Eval(policy.Attributes) (bool, error) { return false, nil }
func (never) String() string                       { return "false" }

// expensive is a cost that depends on the request.
type expensive struct{}

func (expensive) Eval(policy.Attributes) (int64, error) { return 1000, nil }
func (expensive) String() string                        { return "1000" }

func setOf(t *testing.T, configs ...policy.Config) *policy.Set {
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

// TestPolicyKeys checks that a request with the parts of a key has the same key and
// limits as the gateway, byte for byte.
func TestPolicyKeys(t *testing.T) {
	limits := []weir.Limit{weir.MustLimit("10/s"), weir.MustLimit("100/h")}
	own := []weir.Limit{weir.MustLimit("77/s")}
	part := func(s policy.Source, name string) policy.KeyPart { return policy.KeyPart{Source: s, Name: name} }
	token := func(claims string) string {
		enc := base64.RawURLEncoding.EncodeToString
		return "Bearer " + enc([]byte(`{"alg":"none"}`)) + "." + enc([]byte(claims)) + "." + enc([]byte("signed"))
	}
	long := strings.Repeat("x", 500)
	for name, test := range map[string]struct {
		c      policy.Config
		header [][2]string
		target string
		key    []string
	}{
		"claim":                {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "sub")}}, [][2]string{{"Authorization", token(`{"sub":"ann"}`)}}, "/", []string{"ann"}},
		"claim with space":     {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "sub")}}, [][2]string{{"Authorization", token(`{"sub":" ann\n"}`)}}, "/", []string{" ann\n"}},
		"claim with all":       {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "sub")}}, [][2]string{{"Authorization", token(`{"sub":"<a|\"é\\>\u2028"}`)}}, "/", []string{"<a|\"é\\>\u2028"}},
		"claim of a header":    {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "org.id@X-Jwt")}}, [][2]string{{"X-Jwt", token(`{"org":{"id":7}}`)[7:]}}, "/", []string{"7"}},
		"two claims":           {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "a"), part(policy.Claim, "b")}}, [][2]string{{"Authorization", token(`{"a":"1","b":"2"}`)}}, "/", []string{"1", "2"}},
		"claim and its header": {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "a@X-Jwt"), part(policy.Header, "X-Jwt")}}, [][2]string{{"X-Jwt", token(`{"a":"1"}`)[7:]}}, "/", []string{"1", token(`{"a":"1"}`)[7:]}},
		"body": {policy.Config{Key: []policy.KeyPart{part(policy.Form, "email"), part(policy.JSON, "email")}, Overrides: []policy.Override{{Key: []string{"ANN", "*"}, Limits: own}}},
			[][2]string{{"Form-Email", " Ann"}, {"Json-Email", "bob"}}, "/", []string{"Ann ", "BOB"}},
		"expression": {policy.Config{Key: []policy.KeyPart{{Source: policy.CEL, Of: plan{}}}}, [][2]string{{"X-Plan", "gold"}}, "/", []string{"GOLD"}},
		"all kinds": {policy.Config{
			Match: policy.Match{Paths: []string{"/x/{id}"}, Hosts: []string{"*.example"}, Where: never{}},
			Key: []policy.KeyPart{
				part(policy.ClientIP, "56"), part(policy.Path, ""), {Source: policy.CEL, Of: plan{}}, part(policy.Constant, "c"),
				part(policy.Claim, "sub"), part(policy.Host, ""), part(policy.Method, ""), part(policy.Query, "q"), part(policy.Header, "X-Plan"), part(policy.Cookie, "s"),
			}},
			[][2]string{{"X-Plan", "gold"}, {"Authorization", token(`{"sub":"ann"}`)}, {"Cookie", "s=1"}}, "http://A.example:80/x/7?q=z",
			[]string{"192.0.2.1", "/x/9", "GOLD", "ann", "a.example", "GET", "z", "gold", "1"}},
		"long":                   {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "sub")}}, [][2]string{{"Authorization", token(`{"sub":"` + long + `"}`)}}, "/", []string{long}},
		"override of a claim":    {policy.Config{Key: []policy.KeyPart{part(policy.Claim, "sub")}, Overrides: []policy.Override{{Key: []string{"a*"}, Limits: own}}}, [][2]string{{"Authorization", token(`{"sub":"ann"}`)}}, "/", []string{"ann"}},
		"override of expression": {policy.Config{Key: []policy.KeyPart{{Source: policy.CEL, Of: plan{}}}, Overrides: []policy.Override{{Key: []string{"GOLD"}, Limits: own}}}, [][2]string{{"X-Plan", "gold"}}, "/", []string{"GOLD"}},
		"zone":                   {policy.Config{Zone: "z", Key: []policy.KeyPart{part(policy.ClientIP, "")}}, nil, "/", []string{"192.0.2.1"}},
		"override in a zone":     {policy.Config{Zone: "z", Key: []policy.KeyPart{part(policy.ClientIP, "")}, Overrides: []policy.Override{{Key: []string{"192.0.2.1"}, Limits: own}}}, nil, "/", []string{"192.0.2.1"}},
		"override of a network":  {policy.Config{Key: []policy.KeyPart{part(policy.ClientIP, "")}, Overrides: []policy.Override{{Key: []string{"192.0.2.0/24"}, Limits: own}}}, nil, "/", []string{"192.0.2.1"}},
		"everything else": {policy.Config{
			Key: []policy.KeyPart{part(policy.ClientIP, "")}, Percent: 1, CostOf: expensive{}, Count: policy.CountFailures,
			Settle: policy.Settle{Header: "X-Cost"}, Candidate: []weir.Limit{weir.MustLimit("1/s")}, OnStoreError: policy.Local,
		}, nil, "/", []string{"192.0.2.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.c.Name, test.c.Limits = "p", limits
			gateway := test.c
			gateway.Match.Where, gateway.Candidate, gateway.CostOf = nil, nil, nil
			r := httptest.NewRequest("GET", test.target, nil)
			for _, h := range test.header {
				r.Header.Set(h[0], h[1])
			}
			var q policy.Matches
			setOf(t, gateway).Match(&q, gatewayRequest{r})
			seen := &recorder{}
			a := api(t, httpapi.Config{Store: seen, Policies: setOf(t, test.c)})
			body, _ := json.Marshal(map[string]any{"policy": "p", "key": test.key})
			if w := ask(a, "POST", "/v1/take", string(body)); w.Code != 200 {
				t.Fatalf("take %s = %d %s", body, w.Code, w.Body)
			}
			if len(q.Requests) == 0 || len(seen.asked) != len(q.Requests) {
				t.Fatalf("asked %d limits, the gateway %d", len(seen.asked), len(q.Requests))
			}
			for i, want := range q.Requests {
				got := seen.asked[i]
				if got.Key != want.Key || !got.Limit.Equal(want.Limit) || got.N != want.N || got.Verb != weir.Take {
					t.Errorf("asked %q of %s, the gateway %q of %s", got.Key, got.Limit, want.Key, want.Limit)
				}
			}
		})
	}
}

// TestPolicyKeyCarryOver checks that after a change of limits a request carries over the
// state of the key, as the gateway does.
func TestPolicyKeyCarryOver(t *testing.T) {
	store, _ := frozen(t)
	config := func(limit, claim string) policy.Config {
		return policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.Claim, Name: claim}}, Limits: []weir.Limit{weir.MustLimit(limit)}}
	}
	a := api(t, httpapi.Config{Store: store, Policies: setOf(t, config("10/h", "sub"))})
	take := func(want string) {
		t.Helper()
		w := ask(a, "POST", "/v1/take", `{"policy":"p","key":"ann","n":5}`)
		if got := said(t, w.Body.Bytes()); !strings.Contains(got, want) {
			t.Errorf("take = %s, want %s", got, want)
		}
	}
	take("remaining 5")
	a = api(t, httpapi.Config{Store: store, Previous: a, Policies: setOf(t, config("20/h", "sub"))})
	take("remaining 10") // 5 of 20 used, and 5 more
	a = api(t, httpapi.Config{Store: store, Previous: a, Policies: setOf(t, config("40/h", "org"))})
	take("remaining 25") // another claim with the same value: the same key
	a = api(t, httpapi.Config{Store: store, Policies: setOf(t, config("50/h", "org"))})
	take("remaining 30") // an API that follows none: the state has the same name
	a = api(t, httpapi.Config{Store: store, Policies: setOf(t, config("60/24h", "org"))})
	take("remaining 55") // another period
}

// TestPolicyKeyWithoutValue checks that a policy whose claim has no value cannot be
// named: a key has no empty part.
func TestPolicyKeyWithoutValue(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := api(t, httpapi.Config{Store: store, Policies: setOf(t, policy.Config{
		Name: "p", Key: []policy.KeyPart{{Source: policy.Claim, Name: "sub"}}, Limits: []weir.Limit{weir.MustLimit("1/h")},
	})})
	for _, key := range []string{`""`, `[""]`, `[]`, `["a","b"]`} {
		if w := ask(a, "POST", "/v1/take", fmt.Sprintf(`{"policy":"p","key":%s}`, key)); w.Code != 400 {
			t.Errorf("take of %s = %d %s, want 400", key, w.Code, w.Body)
		}
	}
}
