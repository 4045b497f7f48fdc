package policy

import (
	"strconv"

	"github.com/floodweir/weir/budget"
)

// A bound is the largest cost of a request to a language model, by the length of its body.
type bound struct{ meter *budget.Meter }

// Eval implements Expression. A request without a valid length has the bound of an empty one.
func (b bound) Eval(a Attributes) (int64, error) {
	length := int64(-1)
	if values := a.Header("Content-Length"); len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil {
			length = n
		}
	}
	return b.meter.Bound(length), nil
}

// String implements Expression.
func (b bound) String() string { return "the bound of the request" }

// Quota returns the quota unit of a policy with s, such as "tokens", or "" for requests.
func (s Settle) Quota() string {
	if s.Meter != nil {
		return s.Meter.Config().Unit.Quota()
	}
	return ""
}
