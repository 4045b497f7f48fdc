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
	text := ruleText(l)
	if at := c.rules[text]; at > 0 {
		return at
	}
	if w, ok := l.Config().(weir.FixedWindow); ok && w.Calendar != "" {
		c.Add(field, fault.Quote(l.String()), "nginx has no time zones for calendar windows: use a period such as 24h, or %s", elsewhere)
		return 0
	}
	r := redisstore.Outline(l, 0)
	out := Rule{
		Limit: l.String(), Suffix: r.Suffix, Stored: r.Stored, Algorithm: r.Algorithm, Params: r.Params, Capacity: l.Capacity(), Window: httplimit.Window(l),
	}
	if l.IsConcurrency() {
		out.Lease = l.Period().Microseconds()
	}
	c.plan.Rules = append(c.plan.Rules, out)
	c.rules[text] = len(c.plan.Rules)
	return len(c.plan.Rules)
}

// ruleText identifies a limit and its states.
func ruleText(l weir.Limit) string { return l.String() + "\x00" + l.Name() }
