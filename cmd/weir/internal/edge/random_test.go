package edge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/expr"
)

// dice makes random policies.
type dice struct {
	*rand.Rand
	t testing.TB
}

func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func some[T any](d dice, of ...T) []T {
	var list []T
	for _, x := range of {
		if d.IntN(2) == 0 {
			list = append(list, x)
		}
	}
	return list
}

func (d dice) limits() []weir.Limit {
	var limits []weir.Limit
	for _, text := range some(d, "10/s", "100/m burst 300", "5/h sliding_log", "9/m sliding_window", "7/m fixed_window anchor epoch",
		"3/s leaky_bucket burst 4 queue", "4/s burst 8 initial 1", "20/s warmup 10s", "100/m interval") {
		limits = append(limits, weir.MustLimit(text))
	}
	if len(limits) == 0 {
		limits = append(limits, weir.MustLimit("3 concurrency"))
	}
	return limits
}

func (d dice) config(name string) policy.Config {
	c := policy.Config{
		Name: name, Limits: d.limits(), Cost: d.Int64N(3), Mode: one(d, policy.Enforce, policy.Shadow, policy.Off), OnStoreError: one(d, policy.Open, policy.Closed),
		Carry: one(d, weir.CarryUsage, weir.CarryReset),
		Match: policy.Match{Methods: some(d, "GET", "post", "Brew"), Paths: some(d, "/", "/A/{x}", "/b/*"), Hosts: some(d, "a.example", "*.B.example", "[::1]")},
	}
	for _, text := range []string{"client.ip", "header:X", "path", "host", "method", "const:c", "query:q"} {
		k, err := policy.ParseKeyPart(text)
		if err != nil {
			d.t.Fatal(err)
		}
		if d.IntN(3) == 0 && (k.Source != policy.Path || c.Match.Paths != nil) && (k.Source != policy.Host || c.Match.Hosts != nil) {
			c.Key = append(c.Key, k)
		}
	}
	if len(c.Key) == 0 {
		c.Key = []policy.KeyPart{{Source: policy.ClientIP}}
	}
	if d.IntN(3) == 0 {
		where, err := expr.Condition(one(d, `request.path != "/x"`, `request.query["a"] in ["1", "2"] || "a" in request.cookies`))
		if err != nil {
			d.t.Fatal(err)
		}
		c.Match.Where = where
	}
	if c.Mode == policy.Enforce {
		c.Percent = d.IntN(101)
	}
	any := make([]string, len(c.Key))
	for i := range any {
		any[i] = "*"
	}
	if d.IntN(2) == 0 {
		c.Overrides = append(c.Overrides, policy.Override{Key: any, Limits: d.limits()})
	}
	return c
}

// TestCompileRandom compiles random supported policies. The plan must survive JSON, hold
// each rule once, and refer to rules by their positions.
func TestCompileRandom(t *testing.T) {
	seed := rand.Uint64()
	d := dice{rand.New(rand.NewPCG(seed, 0)), t}
	good := 0
	for range 500 {
		var policies []*policy.Policy
		active := 0
		for i := range 1 + d.IntN(4) {
			p, err := policy.New(d.config(fmt.Sprintf("p%d", i)))
			if err != nil {
				continue // such as a concurrency limit that is to be tried out
			}
			if p.Config().Mode != policy.Off {
				active++
			}
			policies = append(policies, p)
		}
		set, err := policy.NewSet(policies...)
		if err != nil {
			continue
		}
		p, err := edge.Compile(set, edge.Options{})
		if err != nil || len(p.Policies) != active {
			t.Fatalf("seed %d: Compile = %d policies, %v, want %d", seed, len(p.Policies), err, active)
		}
		good++
		again := &edge.Plan{}
		if err := json.Unmarshal([]byte(p.JSON()), again); err != nil || again.JSON() != p.JSON() || !reflect.DeepEqual(again.Rules, p.Rules) {
			t.Fatalf("seed %d: the plan does not survive JSON (%v):\n%s", seed, err, p.JSON())
		}
		var known []string
		for _, r := range p.Rules {
			l := weir.MustLimit(r.Limit)
			if named := strings.HasPrefix(r.Suffix, "="); slices.Contains(known, r.Limit+" "+r.Suffix) || named != (r.Stored != "") || r.Algorithm != redisstore.Outline(l, 0).Algorithm || r.Capacity != l.Capacity() {
				t.Fatalf("seed %d: the rule %+v", seed, r)
			}
			known = append(known, r.Limit+" "+r.Suffix)
		}
		i := 0
		for _, pol := range policies {
			c := pol.Config()
			if c.Mode == policy.Off {
				continue
			}
			check := func(numbers []int, limits []weir.Limit) {
				for j, n := range numbers {
					if len(numbers) != len(limits) || known[n-1] != limits[j].String()+" "+redisstore.Outline(limits[j], 0).Suffix {
						t.Fatalf("seed %d: policy %s has the limits %v of %q, want %v", seed, c.Name, numbers, known, limits)
					}
				}
			}
			check(p.Policies[i].Limits, c.Limits)
			if len(c.Overrides) > 0 {
				check(p.Policies[i].Wildcards[0].Limits, c.Overrides[0].Limits)
			}
			i++
		}
	}
	if good < 100 {
		t.Errorf("seed %d: only %d of 500 sets are good", seed, good)
	}
}
