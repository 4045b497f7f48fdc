package algo_test

import (
	"github.com/floodweir/weir/internal/algo"
)

const (
	second = 1_000_000
	hour   = 3600 * second
	day    = 24 * hour
)

var tenants = []algo.Tenant{{ID: 5, Weight: 3, Burst: 7}, {ID: 3, Weight: 1, Burst: 2}, {ID: 8, Weight: 2, Burst: 6}}

var tenantLacks = map[string]string{
	"TestDenialChangesNothing":          "a denial brings the levels forward to its instant: see TestTenantsDenialIsUnseen",
	"TestRetryIsTight":                  "the pool may admit a request earlier",
	"TestBalanceIsWhatFits":             "the balance is that of requests of one token: none mixes its own level and the pool",
	"TestTakeSplits":                    "two requests may use two places",
	"TestCarryBetweenRules":             "the balance has two places, and one request the capacity of one",
	"TestReturnNeverLiftsAboveCapacity": "the balance has two places, and one request the capacity of one",
}

// tenant returns the rule of a child.
func tenant(g *algo.Tenants, err error) func(child int) algo.Rule {
	if err != nil {
		panic(err)
	}
	return func(child int) algo.Rule { return g.Child(child) }
}

// bucketRules are the rules that refill.
var bucketRules = []namedRule{
	{name: "token", rule: must(algo.NewTokenBucket(10, second, 20)), grain: 1, span: second, most: 30},
	{name: "token/1", rule: must(algo.NewTokenBucket(1, 1, 1)), grain: 1, span: 1, most: 2},
	{name: "token/3 per second", rule: must(algo.NewTokenBucket(3, second, 3)), grain: 1, span: second, most: 6},
	{name: "token/7 per hour", rule: must(algo.NewTokenBucket(7, hour, 4)), grain: 1, span: hour, most: 11},
	{name: "token/9999991 per second", rule: must(algo.NewTokenBucket(9_999_991, second, 50)), grain: 1, span: 10, most: 150},
	{name: "token/10 million per second", rule: must(algo.NewTokenBucket(10_000_000, second, algo.MaxCount)), grain: 1, span: second, most: algo.MaxCount + 10_000_000},
	{name: "token/1 per 100 years", rule: must(algo.NewTokenBucket(1, algo.MaxSpan, 1)), grain: 1, span: algo.MaxSpan - 1, most: 1},
	{name: "token/2^32-1 per day", rule: must(algo.NewTokenBucket(1<<32-1, day, 1<<32-1)), grain: 1, span: day, most: 2 * (1<<32 - 1)},
	{name: "token/wide", rule: must(algo.NewTokenBucket(algo.MaxCount-1, algo.MaxSpan, algo.MaxCount-1)), grain: 1, span: algo.MaxSpan, most: 2 * (algo.MaxCount - 1)},

	{name: "leaky/meter", rule: must(algo.NewLeakyBucket(10, second, 5, algo.Queueing{})), grain: 1, span: second, most: 16},
	{name: "leaky/none", rule: must(algo.NewLeakyBucket(7, second, 0, algo.Queueing{Queue: true})), grain: 1, span: second, most: 8},
	{name: "leaky/queue", rule: must(algo.NewLeakyBucket(3, second, 9, algo.Queueing{Queue: true, Free: 2})), grain: 1, span: second, most: 13},

	{name: "tenant/one", rule: tenant(algo.NewTenants(10, second, 20, []algo.Tenant{{ID: 1, Weight: 1, Burst: 20}}, false))(0), grain: 1, span: second, most: 30, lacks: tenantLacks},
	{name: "tenant/first", rule: tenant(algo.NewTenants(10, second, 20, tenants, false))(0), grain: 1, span: second, most: 30, lacks: tenantLacks},
	{name: "tenant/last", rule: tenant(algo.NewTenants(3, second, 40, tenants, false))(2), grain: 1, span: second, most: 43, lacks: tenantLacks},
	{name: "tenant/weighted", rule: tenant(algo.NewTenants(10, second, 40, tenants, true))(0), grain: 1, span: second, most: 50, lacks: tenantLacks},

	{name: "interval", rule: must(algo.NewIntervalBucket(10, second, 25, false)), grain: 1, span: second, most: 35},
	{name: "interval/small burst", rule: must(algo.NewIntervalBucket(10, 100, 3, false)), grain: 1, span: 100, most: 6},
	{name: "interval/epoch", rule: must(algo.NewIntervalBucket(7, 60, 20, true)), grain: 60, span: 60, most: 27},
	{name: "interval/largest", rule: must(algo.NewIntervalBucket(algo.MaxCount/4, algo.MaxSpan/4, algo.MaxCount, false)), grain: 1, span: algo.MaxSpan / 4, most: algo.MaxCount / 4 * 5},

	{name: "limit_req", rule: must(algo.NewLimitReq(10, second, 5, algo.Queueing{Queue: true})), grain: 1000, span: second, most: 16, lacks: limitReqLacks},
	{name: "limit_req/1 per minute", rule: must(algo.NewLimitReq(1, 60*second, 3, algo.Queueing{})), grain: 1000, span: 60 * second, most: 5, lacks: limitReqLacks},
	{name: "limit_req/odd", rule: must(algo.NewLimitReq(4567, second, 100, algo.Queueing{Queue: true, Free: 20})), grain: 1000, span: second, most: 4567 + 101, lacks: limitReqLacks},

	{name: "warmup", rule: must(algo.NewWarmupBucket(10, second, 4*second, 10)), grain: 1, span: second, most: 20, lacks: warmupLacks},
	{name: "warmup/1", rule: must(algo.NewWarmupBucket(7, second, second, 1)), grain: 1, span: second, most: 8, lacks: warmupLacks},
	{name: "warmup/longest", rule: must(algo.NewWarmupBucket(9_999_991, second, 1<<44/9_999_991, 100)), grain: 1, span: 100, most: 1100, lacks: warmupLacks},

	{name: "primed", rule: primed(must(algo.NewTokenBucket(10, second, 20)), 3), grain: 1, span: second, most: 30, lacks: primedLacks},
	{name: "primed/empty", rule: primed(must(algo.NewTokenBucket(3, second, 5)), 0), grain: 1, span: second, most: 8, lacks: primedLacks},
	{name: "primed/full", rule: primed(must(algo.NewTokenBucket(3, second, 5)), 5), grain: 1, span: second, most: 8, lacks: primedLacks},
	{name: "primed/interval", rule: primed(must(algo.NewIntervalBucket(5, 1000, 8, false)), 2), grain: 1, span: 1000, most: 13, lacks: primedLacks},
}

func primed(inner algo.Rule, initial int64) algo.Rule { return must(algo.NewPrimed(inner, initial)) }

var (
	limitReqLacks = map[string]string{
		"TestBackwardTimeMintsNothing": "a clock that goes back by over a minute drains one millisecond, as in nginx",
	}
	warmupLacks = map[string]string{
		"TestBalanceIsWhatFits":             "one Take of any size keeps the bucket busy until it is paid",
		"TestTakeSplits":                    "one Take of any size keeps the bucket busy until it is paid",
		"TestCarryBetweenRules":             "the balance has two places, and one request the capacity of one",
		"TestReturnNeverLiftsAboveCapacity": "a Return can free the bucket, and then the whole burst fits",
	}
	primedLacks = map[string]string{
		"TestRetryIsTight":             "the wait begins with the first sight, which a question put to a copy forgets",
		"TestDenialChangesNothing":     "the first sight of a key is kept even if it is denied",
		"TestBackwardTimeMintsNothing": "a key that was first seen earlier has had longer to fill",
	}
)
