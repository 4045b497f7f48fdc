package edge

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/redisstore"
)

// rule returns the position of a limit in the plan's Rules, from 1. The field names
// where the limit stands.
func (c *compiler) rule(field string, l weir.Limit) int {
	if at := c.rules[l.String()]; at > 0 {
		return at
	}
	if w, ok := l.Config().(weir.FixedWindow); ok && w.Calendar != "" {
		c.Add(field, fault.Quote(l.String()), "nginx has no time zones for calendar windows: use a period such as 24h, or %s", elsewhere)
		return 0
	}
	r := redisstore.Outline(l, 0)
	out := Rule{
		Limit: l.String(), Suffix: r.Suffix, Algorithm: r.Algorithm, Params: r.Params, Capacity: l.Capacity(), Window: httplimit.Window(l),
	}
	if l.IsConcurrency() {
		out.Lease = l.Period().Microseconds()
	}
	c.plan.Rules = append(c.plan.Rules, out)
	c.rules[l.String()] = len(c.plan.Rules)
	return len(c.plan.Rules)
}
