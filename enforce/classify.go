package enforce

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// Classify returns a function that returns the name of the first policy of set, in its order,
// that matches a request, or "" if none does. It names priority classes for a protect.System:
// only the name and the match of the policies are used.
func Classify(set *policy.Set) func(policy.Attributes) string {
	order := map[string]int{}
	for i, p := range set.Policies() {
		order[p.Name()] = i
	}
	return func(a policy.Attributes) string {
		var m policy.Matches
		set.Match(&m, a)
		first := ""
		for _, c := range m.Charges {
			if name := c.Policy.Name(); first == "" || order[name] < order[first] {
				first = name
			}
		}
		return first
	}
}

// Single returns the request that Enter sends to the store for every request with the attributes
// a. It reports false unless the store's decision on it is all that Enter returns. So one enforced
// policy has one limit, without a queue or slots, and the store is in memory. The caller may ask
// the store itself, and calls Enter after an error.
func (e *Enforcer) Single(a policy.Attributes) (r weir.Request, ok bool) {
	if !e.prompt || e.waits || e.settles || e.counts || e.blocks || e.limiters != nil || e.c.Observe != nil || e.c.KeepOnCancel {
		return r, false
	}
	var q policy.Matches
	if e.set.Match(&q, a) != 1 || len(q.Charges) != 1 || len(q.Requests) != 1 || q.Charges[0].Blocked || q.Charges[0].Err != nil {
		return r, false
	}
	r = q.Requests[0]
	queue, _ := r.Limit.Config().(weir.LeakyBucket)
	return r, !queue.Queue && !isSlot(&r) && len(r.From) == 0
}
