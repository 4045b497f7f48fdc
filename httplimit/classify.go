package httplimit

import (
	"net/http"

	"github.com/floodweir/weir/policy"
)

// Classify returns a function that returns the name of the first policy of set, in its order,
// that matches a request, or "" if none does. It is for the Class and Exempt of [ProtectConfig]:
// only the name and the match of the policies are used.
func Classify(set *policy.Set, client ClientAddress) func(*http.Request) string {
	order := map[string]int{}
	for i, p := range set.Policies() {
		order[p.Name()] = i
	}
	return func(r *http.Request) string {
		var m policy.Matches
		set.Match(&m, &attributes{r: r, client: &client})
		first := ""
		for _, c := range m.Charges {
			if name := c.Policy.Name(); first == "" || order[name] < order[first] {
				first = name
			}
		}
		return first
	}
}
