package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// seesResponses reports whether c counts by the status of the response.
func (c Count) seesResponses() bool { return c == CountFailures || c == CountSuccesses }

// checkCount adds the errors of Count, Failures and Settle.
func (p *Policy) checkCount(f *faults) {
	c := &p.config
	const none = "want no concurrency limit with it, such as %s: a slot is given back, it does not count"
	slots := p.slots()
	if c.Settle.Header != "" && !spelling.IsToken(c.Settle.Header) {
		f.Add("cost.header", fault.Quote(c.Settle.Header), "want the name of a response header, such as X-Cost")
	}
	for _, path := range c.Settle.Paths() {
		if !isJSONPath(path) {
			f.Add("cost.json", fault.Quote(c.Settle.JSON), "want names of members joined by dots, such as usage.total_tokens, or a sum such as usage.input_tokens + usage.output_tokens")
			break
		}
	}
	switch {
	case c.Settle.Expr != nil && (c.Settle.Header != "" || c.Settle.JSON != "" || c.Settle.Meter != nil):
		f.Add("cost.expr", fault.Quote(c.Settle.Expr.String()), "want it alone, without cost.header, cost.json and budget")
	case c.Settle.Expr != nil && slots != "":
		f.Add("cost.expr", fault.Quote(c.Settle.Expr.String()), none, slots)
	case c.Settle.Header != "" && c.Settle.JSON != "":
		f.Add("cost.json", fault.Quote(c.Settle.JSON), "want it or cost.header, not both")
	case c.Settle.Meter != nil && (c.Settle.Header != "" || c.Settle.JSON != ""):
		f.Add("cost", "", "want it or budget, not both")
	case c.Settle.Meter != nil && slots != "":
		f.Add(slots, fault.Quote("concurrency"), "want no concurrency limit in a budget: a slot is given back, it does not count")
	case c.Settle.Header != "" && slots != "":
		f.Add("cost.header", fault.Quote(c.Settle.Header), none, slots)
	case c.Settle.JSON != "" && slots != "":
		f.Add("cost.json", fault.Quote(c.Settle.JSON), none, slots)
	}
	switch c.Count {
	case CountAdmitted, CountAll, CountFailures, CountSuccesses:
		if c.Count != CountAdmitted && slots != "" {
			f.Add("count", fault.Quote(string(c.Count)), none, slots)
		}
	default:
		f.Add("count", fault.Quote(string(c.Count)), "want admitted, all, failures or successes")
	}
	if len(c.Failures) > 0 && !c.Count.seesResponses() {
		f.Add("failures", "", "want it with count: failures or count: successes only")
	}
	for i, r := range c.Failures {
		if r[0] < 100 || r[1] > 599 || r[0] > r[1] {
			f.Add(fmt.Sprintf("failures[%d]", i), fmt.Sprintf("%d-%d", r[0], r[1]), "want statuses from 100 to 599, the lower one first")
		}
	}
}

// isJSONPath reports whether path has names of members joined by dots. Characters of expressions,
// in which a name would never match, are not accepted.
func isJSONPath(path string) bool {
	return spelling.IsText(path) && !strings.ContainsAny(path, " \t+*()[]{}\"'") && !slices.Contains(strings.Split(path, "."), "")
}

// slots returns the field of a concurrency limit, or "".
func (p *Policy) slots() string {
	in := func(field string, limits []weir.Limit) string {
		if i := slices.IndexFunc(limits, isConcurrency); i >= 0 {
			return fmt.Sprintf("%s[%d]", field, i)
		}
		return ""
	}
	if field := in("limits", p.config.Limits); field != "" {
		return field
	}
	if field := in("candidate", p.config.Candidate); field != "" {
		return field
	}
	for i, o := range p.config.Overrides {
		if field := in(fmt.Sprintf("overrides[%d].limits", i), o.Limits); field != "" {
			return field
		}
	}
	return ""
}

// checkShares adds the errors of Shares.
func (c *Config) checkShares(f *faults) {
	s := c.Shares
	switch {
	case !s.Auto && s != (Shares{}):
		f.Add("shares", "", "want auto with lease and largest")
	case s.Lease != 0 && (s.Lease < time.Second || s.Lease > time.Hour):
		f.Add("shares.lease", s.Lease.String(), "want 1s to 1h")
	case s.Largest < 0 || s.Largest > 100:
		f.Add("shares.largest", fmt.Sprint(s.Largest), "want 1 to 100 percent")
	case s.Auto:
		if reason := c.undivided(); reason != "" {
			f.Add("shares", "auto", "want off: %s", reason)
		}
	}
}

// undivided returns the reason why the limits of the policy cannot be divided, whatever they are, or
// "".
func (c *Config) undivided() string {
	switch {
	case len(c.Limits) == 0 && len(c.Overrides) == 0:
		return "the policy has no limits to divide"
	case c.Settle != Settle{}:
		return "the cost is known at the end of a request, and shares have no reservations"
	case c.Count.seesResponses():
		return "with count: " + string(c.Count) + " requests are reserved, and shares have no reservations"
	case c.Count == CountAll:
		return "with count: all denied requests become debt, which other processes learn late"
	case c.Zone != "":
		return "limits in an nginx zone share a state"
	case len(c.Tenants) > 0:
		return "tenants share a state"
	}
	return ""
}

// Divides reports whether c may have shares, apart from the algorithms of its limits.
func (c *Config) Divides() bool { return c.undivided() == "" }

// checkMode adds the errors of Mode, Percent and Candidate.
func (p *Policy) checkMode(f *faults) {
	c := &p.config
	switch c.Mode {
	case Enforce, Shadow, Off:
	default:
		f.Add("mode", fault.Quote(string(c.Mode)), "want enforce, shadow or off")
	}
	switch {
	case c.Percent < 1 || c.Percent > 100:
		f.Add("percent", fmt.Sprint(c.Percent), "want 1 to 100")
	case c.Percent < 100 && (c.Mode == Shadow || c.Mode == Off):
		f.Add("percent", fmt.Sprint(c.Percent), "want mode enforce with it: nothing is enforced in mode %s", c.Mode)
	}
	p.compileLimits(f, "candidate", c.Candidate)
	if n := len(c.Candidate); n > 0 && n == len(c.Limits) && !slices.ContainsFunc(c.Candidate, func(l weir.Limit) bool {
		return !slices.ContainsFunc(c.Limits, l.Equal)
	}) {
		f.Add("candidate", "", "want limits that differ from those of the policy: there is nothing to try out")
	}
}

// fixed reports whether o, or the policy if o is nil, blocks a key or does not limit it.
func (c *Config) fixed(o *Override) (blocked, unlimited bool) {
	if o != nil {
		return o.Block, o.Unlimited
	}
	return c.Block, c.Unlimited
}

// Blocks reports whether the policy or one of its overrides blocks requests.
func (c *Config) Blocks() bool {
	return c.Block || slices.ContainsFunc(c.Overrides, func(o Override) bool { return o.Block })
}
