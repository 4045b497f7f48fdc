package redistest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// tenantsOf returns the rules of all children of a parent.
func tenantsOf(t *testing.T, count, period, burst int64, weighted bool, children ...algo.Tenant) (rules []algo.Rule) {
	t.Helper()
	g, err := algo.NewTenants(count, period, burst, children, weighted)
	if err != nil {
		t.Fatal(err)
	}
	for i := range children {
		rules = append(rules, g.Child(i))
	}
	return rules
}

// bring applies what precedes the decision of a at now, and stays. It reports whether that
// is anything: a child of a parent became full, or the parent changed.
func (w *twin) bring(words []int64, now int64, a algo.Ask) bool {
	b, ok := w.rule.(*algo.TenantBucket)
	if !ok {
		return false
	}
	if w.under == nil || w.last == 0 {
		w.under = b
	}
	changed := false
	if n := len(w.under.(*algo.TenantBucket).AllParams())/4 - 2; len(words) > 0 {
		changed = slices.ContainsFunc(words[8:8+n], func(full int64) bool { return full > 0 && full <= now })
	}
	words, r := w.under.Do(words, algo.Ask{Op: algo.Peek, Now: now})
	if changed {
		w.words, w.last = words, max(now, w.last)
		if r.Reset == 0 {
			w.unused()
		}
	}
	reads := a.Op == algo.Peek || a.N == 0 && a.Op < algo.Peek
	if reads || algo.SameState(w.under, b) {
		return changed && algo.SameState(w.under, b)
	}
	if w.words != nil || w.ahead != 0 {
		w.words, w.last = algo.Migrate(w.under, words, b, nil, now), max(now, w.last)
		if trim(w.words) == nil {
			w.unused()
		}
	}
	w.under = b
	return true
}

// parentText returns the text of a parent, as it is stored with the state.
func parentText(b *algo.TenantBucket) string {
	p := append(b.Params(0)[:5], 0, 1, 0, 0, algo.Refill(b))
	return "tenant_bucket " + strings.ReplaceAll(strings.Trim(fmt.Sprint(p), "[]"), " ", ",")
}

// members returns the members and scores of a sorted set in order.
func members(reply any) string {
	set, ok := reply.([]any)
	if !ok || len(set) == 0 {
		return "<nil>"
	}
	var all []string
	for i := 0; i < len(set); i += 2 {
		all = append(all, fmt.Sprint(set[i], " ", set[i+1]))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// tenantWanted returns the members that a twin stores for a step.
func tenantWanted(b *algo.TenantBucket, s step) string {
	if s.last == 0 {
		return "<nil>"
	}
	head := []any{}
	words := s.words
	if len(words) > 0 {
		for _, v := range words[:8] {
			head = append(head, v)
		}
	}
	if head = append(head, s.last); s.ahead != 0 {
		head = append(head, []int64{s.ahead})
	}
	text, err := json.Marshal(append(head, parentText(b)))
	if err != nil {
		panic(err)
	}
	set := []any{string(text), "-inf"}
	all := b.AllParams()[9:]
	n := len(all) / 4
	for i := 0; i < n && len(words) > 0; i++ {
		p := all[4*i:]
		name := fmt.Sprintf("%d:%d:%d:%d", p[0], p[1], p[2], p[3])
		add := func(of int, letter, over string, score func(int64) int64) {
			if v, x := words[8+of*n+i], words[8+(of+1)*n+i]; v > 0 {
				if set = append(set, letter+":"+name, fmt.Sprint(score(v))); x > 0 {
					set = append(set, fmt.Sprintf("%s:%d", over, p[0]), fmt.Sprint(-(1<<52)-2-x))
				}
			}
		}
		add(0, "f", "x", func(v int64) int64 { return v })
		if p[3] > 0 {
			add(4, "h", "y", func(v int64) int64 { return -1 - v })
		}
	}
	return members(set)
}

// TestTwinTenantBucket sends asks of random children, with both ways to divide surplus. In the
// last lists processes with different children, weights, bursts and rates share the state.
func TestTwinTenantBucket(t *testing.T) {
	lists := map[string][]algo.Rule{}
	for _, p := range bucketRates {
		for i, children := range [][]algo.Tenant{
			{{ID: 1, Weight: 1, Burst: max(1, p.burst/2)}},
			{{ID: 1, Weight: 3, Burst: 1}, {ID: 2, Weight: 1, Burst: max(1, p.burst/2-1)}},
			{{ID: 7, Weight: 3, Burst: max(1, p.burst/4)}, {ID: 5, Weight: 2, Burst: max(1, p.burst/8)}, {ID: 9, Weight: 7, Burst: max(1, p.burst/8)}},
		} {
			for _, weighted := range []bool{false, true} {
				if _, err := algo.NewTenants(p.count, p.period, p.burst, children, weighted); err == nil {
					lists[fmt.Sprint(p, i, weighted)] = tenantsOf(t, p.count, p.period, p.burst, weighted, children...)
				}
			}
		}
	}
	if len(lists) < 35 {
		t.Fatalf("%d parents accepted, want at least 35", len(lists))
	}
	a, b, c := algo.Tenant{ID: 11, Weight: 3, Burst: 20}, algo.Tenant{ID: 12, Weight: 1, Burst: 5}, algo.Tenant{ID: 13, Weight: 1, Burst: 5}
	heavy := algo.Tenant{ID: 12, Weight: 7, Burst: 30}
	was := tenantsOf(t, 100, second, 60, false, a, b, c)
	lists["weights"] = append(was, tenantsOf(t, 100, second, 60, false, a, heavy, c)...)
	lists["children"] = append(was, tenantsOf(t, 100, second, 60, false, c, a)...)
	lists["parents"] = append(was, tenantsOf(t, 7, second, 50, false, b, algo.Tenant{ID: 99, Weight: 7, Burst: 20}, a)...)
	lists["surplus"] = append(was, tenantsOf(t, 100, second, 60, true, a, b, c)...)
	lists["by weight"] = append(tenantsOf(t, 100, second, 120, true, a, b, c), tenantsOf(t, 50, second, 120, true, a, heavy)...)
	lists["units"] = append(tenantsOf(t, 999_983, 1_000_003, 77, false, a, b), tenantsOf(t, 1, second, 1_000_000, true, a, heavy)...)
	many := make([]algo.Tenant, 100)
	for i := range many {
		many[i] = algo.Tenant{ID: int64(i + 1), Weight: int64(i%7 + 1), Burst: 2}
	}
	lists["many"] = tenantsOf(t, 1000, second, 500, false, many...)
	lists["many by weight"] = tenantsOf(t, 1000, second, 500, true, many...)
	runSharing(t, lists)
}
