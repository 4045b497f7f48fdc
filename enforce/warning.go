package enforce

import (
	"strconv"

	"github.com/floodweir/weir"
)

// BudgetWarning returns the levels of budgets whose use has reached the smallest percentage of their
// Warning, with the part that is used: team;used=0.82. It is "" if there are none. The use includes
// what requests in flight have reserved.
func (p *Admission) BudgetWarning() string {
	var text []byte
	charges := p.Charges()
	for i := range charges {
		c := charges[i].Policy.Config()
		if c.Settle.Meter == nil || c.Settle.Meter.Config().Warn == nil {
			continue
		}
		warn, used := c.Settle.Meter.Config().Warn, int64(-1)
		for _, d := range p.Decisions(&charges[i]) {
			if d.Limit.IsZero() {
				continue
			}
			n, limit := Used(d), d.Limit.Capacity()
			if d.OK && p.outcome == Denied { // another level has denied it, so this one was not charged
				n -= charges[i].Cost
			}
			if warn.Reached(warn.Least(), n, limit) {
				used = max(used, n*100/limit)
			}
		}
		if used < 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, ", "...)
		}
		name := warn.Level(c.Name)
		if first := name[0]; first >= '0' && first <= '9' { // no token of RFC 9651
			name = strconv.Quote(name)
		}
		text = append(text, name...)
		text = strconv.AppendFloat(append(text, ";used="...), float64(used)/100, 'f', 2, 64)
	}
	return string(text)
}

// Used returns the tokens of the limit of d that are used after it, also those that are owed.
func Used(d weir.Decision) int64 { return d.Limit.Capacity() - d.Remaining + d.Debt }
