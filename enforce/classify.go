package enforce

import "github.com/floodweir/weir/policy"

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
