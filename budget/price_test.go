package budget_test

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
)

// table returns the prices of the fixtures.
func table(t testing.TB) *budget.Prices {
	t.Helper()
	p, err := budget.NewPrices("",
		budget.Price{Models: []string{"long-*"}, Input: "1", Output: "2", Above: 100, Long: &budget.Price{Input: "3", Output: "4"}},
		budget.Price{Models: []string{"m1", "m1-*"}, Input: "1.25", Cached: "0.125", Output: "10"},
		budget.Price{Models: []string{"m1-dear"}, Input: "100", Output: "100"},
		budget.Price{Models: []string{"a-*"}, Input: "3", Cached: "0.30", CacheWrite: "3.75", CacheWrite1h: "6", Output: "15"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrices(t *testing.T) {
	type usage = budget.Usage
	for _, test := range []struct {
		name string
		u    usage
		want int64
		err  error
	}{
		{"nothing", usage{Model: "m1"}, 0, nil},
		{"one token is rounded up", usage{Model: "m1", Input: 1}, 2, nil},
		{"the sum is rounded once", usage{Model: "m1", Input: 1, Cached: 1, Output: 1}, 12, nil}, // 11.375
		{"a pattern", usage{Model: "m1-2026", Input: 1_000_000}, 1_250_000, nil},
		{"an exact name precedes a pattern", usage{Model: "m1-dear", Input: 1_000_000}, 100_000_000, nil},
		{"no price of cached tokens", usage{Model: "m1-dear", Cached: 1_000_000}, 100_000_000, nil},
		{"the cache", usage{Model: "a-1", Cached: 1_000_000, CacheWrite: 1_000_000, CacheWrite1h: 1_000_000}, 300_000 + 3_750_000 + 6_000_000, nil},
		{"up to the context length", usage{Model: "long-1", Input: 60, Cached: 40, Output: 1}, 102, nil},
		{"above the context length", usage{Model: "long-1", Input: 61, Cached: 40, Output: 1}, 3*101 + 4, nil},
		{"an unknown model has the highest prices", usage{Model: "x", Input: 1_000_000, Output: 1_000_000}, 200_000_000, budget.ErrUnknownModel},
		{"no model", usage{Input: 1}, 100, budget.ErrUnknownModel},
		{"more than can be counted", usage{Model: "m1-dear", Input: budget.MaxTokens, Output: budget.MaxTokens}, budget.MaxCost, nil},
	} {
		if got, err := table(t).Cost(test.u); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: Cost = %d, %v, want %d, %v", test.name, got, err, test.want, test.err)
		}
	}
	named, err := budget.NewPrices("m", budget.Price{Models: []string{"m"}, Input: "1", Output: "2"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := named.Cost(usage{Model: "x", Input: 5}); got != 5 || err != nil {
		t.Errorf("unknown model with a price of m: Cost = %d, %v, want 5", got, err)
	}
}

// TestCostIsExact compares costs with arithmetic of any precision.
func TestCostIsExact(t *testing.T) {
	prices := table(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		n := func() int64 { return rnd.Int64N(1 << rnd.IntN(40)) }
		u := budget.Usage{Model: "a-x", Input: n(), Cached: n(), CacheWrite: n(), CacheWrite1h: n(), Output: n()}
		sum := new(big.Int)
		for _, part := range [][2]int64{{u.Input, 3_000_000}, {u.Cached, 300_000}, {u.CacheWrite, 3_750_000}, {u.CacheWrite1h, 6_000_000}, {u.Output, 15_000_000}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
		want := int64(budget.MaxCost)
		if sum.IsInt64() {
			want = min(want, sum.Int64())
		}
		if got, _ := prices.Cost(u); got != want {
			t.Fatalf("Cost(%+v) = %d, want %d", u, got, want)
		}
	}
}

func TestBadPrices(t *testing.T) {
	ok := budget.Price{Models: []string{"m"}, Input: "1", Output: "2"}
	with := func(change func(*budget.Price)) budget.Price { p := ok; change(&p); return p }
	for _, test := range []struct {
		name, unknown string
		price         budget.Price
		field         string
	}{
		{"per token", "", with(func(p *budget.Price) { p.Input = "0.00000125" }), "models[0].input"},
		{"negative", "", with(func(p *budget.Price) { p.Output = "-1" }), "models[0].output"},
		{"exponent", "", with(func(p *budget.Price) { p.Output = "1e3" }), "models[0].output"},
		{"no digits", "", with(func(p *budget.Price) { p.Cached = "." }), "models[0].cached"},
		{"missing", "", with(func(p *budget.Price) { p.Input = "" }), "models[0].input"},
		{"too large", "", with(func(p *budget.Price) { p.Input = "1000001" }), "models[0].input"},
		{"no model", "", with(func(p *budget.Price) { p.Models = nil }), "models[0].model"},
		{"a model twice", "", with(func(p *budget.Price) { p.Models = []string{"m", "m"} }), "models[0].model"},
		{"long without a length", "", with(func(p *budget.Price) { p.Long = &ok }), "models[0].long"},
		{"a length without prices", "", with(func(p *budget.Price) { p.Above = 5 }), "models[0].long"},
		{"an unknown entry", "x", ok, "unknown_model"},
	} {
		_, err := budget.NewPrices(test.unknown, test.price)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "budget: "+test.field+": ") {
			t.Errorf("%s: NewPrices = %v, want an error of %s", test.name, err, test.field)
		}
	}
}

func TestMeter(t *testing.T) {
	u := budget.Usage{Model: "m1", Input: 40, Cached: 50, CacheWrite: 10, Output: 50}
	for _, test := range []struct {
		unit        budget.Unit
		cost, bound int64
		quota       string
	}{
		{budget.USD, 569, 100*1500 + 100*200, "micro-usd"},
		{budget.Tokens, 150, 1700, "tokens"},
		{budget.InputTokens, 100, 1500, "input_tokens"},
		{budget.OutputTokens, 50, 200, "output_tokens"},
	} {
		m, err := budget.NewMeter(budget.MeterConfig{Unit: test.unit, Prices: table(t), MaxOutput: 200})
		if err != nil {
			t.Fatal(err)
		}
		if cost, err := m.Cost(u); cost != test.cost || err != nil {
			t.Errorf("%s: Cost = %d, %v, want %d", test.unit, cost, err, test.cost)
		}
		if got := m.Bound(500, budget.ModelRequest{}, 200); got != test.bound {
			t.Errorf("%s: Bound = %d, want %d", test.unit, got, test.bound)
		}
		if got := test.unit.Quota(); got != test.quota {
			t.Errorf("%s: Quota = %s, want %s", test.unit, got, test.quota)
		}
	}
	for _, bad := range []budget.MeterConfig{{}, {Unit: "eur"}, {Unit: budget.USD}, {Unit: budget.Tokens, Format: "x"}, {Unit: budget.Tokens, MaxInput: -1}, {Unit: budget.Tokens, MaxOutput: -1}} {
		if _, err := budget.NewMeter(bad); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewMeter(%+v) = %v, want an error", bad, err)
		}
	}
}

// TestVersion checks that the version of a table is that of its prices, however they are written.
func TestVersion(t *testing.T) {
	version := func(unknown, input string, models ...string) string {
		p, err := budget.NewPrices(unknown, budget.Price{Models: models, Input: input, Output: "10"})
		if err != nil {
			t.Fatal(err)
		}
		return p.Version()
	}
	first := version("", "1.25", "m1")
	if len(first) != 12 || version("", "1.250", "m1") != first {
		t.Errorf("Version = %q and %q, want 12 digits, and the same for 1.250", first, version("", "1.250", "m1"))
	}
	for _, other := range []string{version("", "1.26", "m1"), version("m1", "1.25", "m1"), version("", "1.25", "m1", "m2")} {
		if other == first {
			t.Errorf("Version = %q for other prices too", other)
		}
	}
}
