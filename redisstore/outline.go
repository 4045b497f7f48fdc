package redisstore

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/internal/rediskey"
)

// Outline describes l at the instant now, in µs, to Weir's compiler for nginx, which runs
// [Script] itself and shares the keys of a store. l must not be the
// zero Limit.
func Outline(l weir.Limit, now int64) outline.Rule {
	rule := l.Spec().Rule
	return outline.Rule{
		Stored:    new(rules).of(l).stored,
		Algorithm: ruleName(rule),
		Params:    append(append([]int64(nil), rule.Params(now)...), algo.Refill(rule)),
		Suffix:    rediskey.Encode(l.Spec().State, false),
	}
}
