package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/floodweir/weir"
)

// named returns the limits of a key with names for their states. A change of a count, a rate
// or a burst keeps the name, so all processes use one state, whatever version of the policy
// each has. Limits with equal names stay unnamed: their order is no identity, so a name could
// give one the state of another. So do limits whose carry is not weir.CarryUsage, because a
// named state always moves as that describes.
func named(limits []weir.Limit, carry weir.Carry) []weir.Limit {
	names := make([]string, len(limits))
	for i, l := range limits {
		if names[i] = stateName(l); l.Name() == "" && !isConcurrency(l) && carry != weir.CarryUsage {
			names[i] = ""
		}
	}
	limits = slices.Clone(limits)
	for i, name := range names {
		if name != "" && !slices.Contains(names[:i], name) && !slices.Contains(names[i+1:], name) {
			limits[i] = limits[i].Named(name)
		}
	}
	return limits
}

// stateName returns the name of the states of l. Without a name of its own, it is the period and
// the algorithm as in the text of the limit, such as "/s" or "/24h fixed_window".
func stateName(l weir.Limit) string {
	if l.Name() != "" || isConcurrency(l) {
		return cmp.Or(l.Name(), l.Algorithm())
	}
	_, text, _ := strings.Cut(l.String(), "/")
	period, _, _ := strings.Cut(text, " ")
	if l.Algorithm() == "token_bucket" {
		return "/" + period
	}
	return "/" + period + " " + l.Algorithm()
}
