package redisstore

import "github.com/floodweir/weir"

// A Rule is a limit as the script takes it, for a program that asks the script itself
// (see [Script]) and shares the keys of a Store.
type Rule struct {
	// Name is the algorithm, such as token_bucket or, of one around another,
	// primed/token_bucket.
	Name string

	// Params are the limit's numbers and, last, its horizon. Of a calendar they hold
	// the bounds of windows around the given instant (see algo.FixedWindow).
	Params []int64

	// Suffix is what the names of its states end in, behind a ':'. Limits of one
	// weir.Limit.State have it in common.
	Suffix string
}

// RuleOf is the Rule of l, which is not the zero Limit, at the instant now in µs.
func RuleOf(l weir.Limit, now int64) Rule {
	rule := l.Rule()
	return Rule{
		Name:   ruleName(rule),
		Params: append(append([]int64(nil), rule.Params(now)...), rule.Horizon()),
		Suffix: encode(l.State(), false),
	}
}

// KeyPrefix is what the names of a store with the given Config.Prefix begin with;
// that of DefaultPrefix if it is empty: weir:1:.
func KeyPrefix(prefix string) string {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return prefix + ":" + version + ":"
}
