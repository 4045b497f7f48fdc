package benchmarks

import (
	"context"
	"strings"
	"testing"

	"github.com/floodweir/weir/benchmarks/compare"
)

// guardRows guard a function with a rate or with concurrency slots.
func guardRows() []compare.Row {
	calls := compare.Row{
		Name: "guard/rate", Title: "a guarded call, allowed by a rate", Base: "weir/Func", Columns: local,
		Goals: []compare.Goal{{Column: "cpu", Most: 200}, {Column: "allocs", Most: 0}},
	}
	slots := compare.Row{
		Name: "guard/slot", Title: "a guarded call with a concurrency slot", Base: "weir/concurrency", Columns: local,
		Goals: []compare.Goal{{Column: "cpu", Most: 600}, {Column: "allocs", Most: 2}},
	}
	bare := guardPeer{"bare", func(testing.TB, bool) call { return work }}
	calls.Contenders = append(calls.Contenders, guarded(bare))
	slots.Contenders = append(slots.Contenders, guarded(bare))
	for _, p := range guardPeers {
		if strings.HasSuffix(p.name, "concurrency") || strings.HasSuffix(p.name, "bulkhead") {
			slots.Contenders = append(slots.Contenders, guarded(p))
		} else {
			calls.Contenders = append(calls.Contenders, guarded(p))
		}
	}
	return []compare.Row{calls, slots}
}

func guarded(p guardPeer) compare.Contender {
	return compare.Contender{Name: p.name, Open: func(t testing.TB) compare.Measure {
		if strings.HasPrefix(p.name, "sentinel") {
			startSentinel(t)
		}
		f := openGuard(t, p, false)
		ctx, result := context.Background(), 0
		return repeat(1, func(n int) {
			for range n {
				result, _ = f(ctx, result)
			}
		})
	}}
}
