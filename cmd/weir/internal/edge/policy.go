package edge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/expr"
)

// A compiler builds a plan.
type compiler struct {
	fault.Collector
	plan  *Plan
	local policy.FailMode

	regions bool
	rules   map[string]int // positions in plan.Rules, from 1, by the text of the limit
}

// policy adds p to the plan.
func (c *compiler) policy(p *policy.Policy) {
	cfg, o := p.Config(), p.Outline()
	c.Policy = cfg.Name
	c.unsupported(cfg)
	out := Policy{
		Name: cfg.Name, Bucket: p.Bucket(), Shadow: cfg.Mode == policy.Shadow, Percent: cfg.Percent,
		Limits: c.limits("limits", cfg.Limits), Cost: cfg.Cost, Count: string(cfg.Count),
		OnDenied: c.onDenied(cfg.OnDenied), OnStoreError: string(cfg.OnStoreError),
		Match: c.match(cfg.Match, o),
	}
	for i, k := range o.Key {
		out.Key = append(out.Key, c.part(fmt.Sprintf("key[%d]", i), cfg.Key[i], k))
	}
	if cfg.CostOf != nil {
		out.CostOf = c.expression("cost", cfg.CostOf)
	}
	out.Failures = cfg.Failures
	if cfg.OnStoreError == policy.Local {
		out.OnStoreError = string(cmp.Or(c.local, policy.Closed))
	}
	c.overrides(&out, cfg, o)
	c.plan.Policies = append(c.plan.Policies, out)
}

// unsupported reports the fields of a policy that docs/decisions/0020 leaves to /v1/auth
// and the gateway.
func (c *compiler) unsupported(cfg policy.Config) {
	if cfg.Settle.Header != "" {
		c.Add("cost.header", fault.Quote(cfg.Settle.Header), "nginx does not read the cost from responses: put this policy into Weir's gateway, see docs/nginx.md")
	}
	if cfg.Settle.Meter != nil {
		c.Add("budget", "", "nginx does not read the cost from responses: put this policy into Weir's gateway, see docs/nginx.md")
	}
	if cfg.Settle.Expr != nil {
		c.Add("cost.expr", fault.Quote(cfg.Settle.Expr.String()), "nginx does not read the cost from responses: put this policy into Weir's gateway, see docs/nginx.md")
	}
	if cfg.Settle.JSON != "" {
		c.Add("cost.json", fault.Quote(cfg.Settle.JSON), "nginx does not read the cost from responses: put this policy into Weir's gateway, see docs/nginx.md")
	}
	if len(cfg.Except) > 0 {
		c.Add("except", count(len(cfg.Except)), "nginx does not exempt requests from a policy: use a location without access_by_lua_block, or %s", elsewhere)
	}
	if cfg.Block {
		c.Add("block", "true", "nginx does not block requests by policy: use deny or return in its configuration, or %s", elsewhere)
	}
	if cfg.Unlimited {
		c.Add("limits", "unlimited", "nginx needs limits: %s", elsewhere)
	}
	if cfg.Count == policy.CountAll {
		c.Add("count", "all", "nginx does not charge denied requests: use admitted, or %s", elsewhere)
	}
	if cfg.OnDenied.Wait > 0 {
		c.Add("on_denied.wait", cfg.OnDenied.Wait.String(), "nginx does not hold denied requests back: leave it out, or %s", elsewhere)
	}
	if len(cfg.Candidate) > 0 {
		c.Add("candidate", fault.Quote(cfg.Candidate[0].String()), "nginx does not try candidate limits: use a second policy with mode: shadow, or %s", elsewhere)
	}
	if cfg.Shares.Auto {
		c.Add("shares", "auto", "nginx has no shares, and would decide by a state of its own: use off, or %s", elsewhere)
	}
	if c.regions && !cfg.EachRegion {
		c.Add("regions", "divide", "nginx decides by whole limits: use each, or %s", elsewhere)
	}
	if n := len(cfg.Tenants); n > 0 {
		c.Add("tenants", fmt.Sprint(n), "nginx does not divide limits among tenants: %s", elsewhere)
	}
	if name := map[weir.Carry]string{weir.CarryProportional: "proportional", weir.CarryAsIs: "as_is", weir.CarryAdditive: "additive"}[cfg.Carry]; name != "" {
		c.Add("carry", name, "nginx keeps what was used or nothing: use usage or reset, or %s", elsewhere)
	}
}

func count(exceptions int) string { return fmt.Sprintf("%d of them", exceptions) }

// expression compiles an expression.
func (c *compiler) expression(field string, e fmt.Stringer) any {
	out, err := expr.Portable(e)
	if err != nil {
		c.Add(field, fault.Quote(e.String()), "nginx cannot evaluate %s: rewrite the expression, or %s", err, elsewhere)
	}
	return out
}

// overrides adds the overrides of a policy. Rules are numbered in the order of the
// file, so the limits of Exact, a map, are added first.
func (c *compiler) overrides(out *Policy, cfg policy.Config, o outline.Policy) {
	for i, override := range cfg.Overrides {
		if override.Block || override.Unlimited {
			word := "0"
			if override.Unlimited {
				word = "unlimited"
			}
			c.Add(fmt.Sprintf("overrides[%d].limits", i), word, "nginx needs limits: %s", elsewhere)
		}
		c.limits(fmt.Sprintf("overrides[%d].limits", i), override.Limits)
	}
	if len(o.Exact) > 0 {
		out.Exact = make(map[string][]int, len(o.Exact))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Exact)) {
		c.text("overrides", key)
		out.Exact[key] = c.positions(cfg.Overrides[o.Exact[key]].Limits)
	}
	for _, w := range o.Wildcards {
		x := Wildcard{Limits: c.positions(cfg.Overrides[w.Override].Limits)}
		for _, f := range w.Fit {
			fit := Fit{Any: f.Any}
			switch {
			case f.Any:
			case f.Network.IsValid():
				fit.Network = f.Network.String()
			default:
				fit.Text = f.Text
				for _, t := range f.Text {
					c.text("overrides", t)
				}
			}
			x.Fit = append(x.Fit, fit)
		}
		out.Wildcards = append(out.Wildcards, x)
	}
}

// positions returns the positions in the plan's Rules of limits that were added before.
func (c *compiler) positions(list []weir.Limit) []int {
	out := make([]int, len(list))
	for i, l := range list {
		out[i] = c.rules[ruleText(l)]
	}
	return out
}

// text reports a text that JSON cannot hold.
func (c *compiler) text(field, s string) {
	if !utf8.ValidString(s) {
		c.Add(field, fault.Quote(s), "want text in UTF-8")
	}
}

func (c *compiler) match(m policy.Match, o outline.Policy) Match {
	out := Match{Methods: o.Methods}
	for _, h := range o.Hosts {
		c.text("match.hosts", h.Name)
		out.Hosts = append(out.Hosts, Host{h.Name, h.Below})
	}
	for _, p := range o.Paths {
		out.Paths = append(out.Paths, Path{p.Pattern, append([]string{}, p.Segments...), p.Rest})
	}
	for _, h := range o.Headers {
		x := Header{Name: strings.ToLower(h.Name)}
		for _, v := range h.Values {
			c.text("match.headers."+h.Name, v)
			if v == "*" {
				x.Any = true
			} else {
				x.Values = append(x.Values, v)
			}
		}
		out.Headers = append(out.Headers, x)
	}
	if m.Where != nil {
		out.Where = c.expression("match.where", m.Where)
	}
	return out
}

func (c *compiler) part(field string, k policy.KeyPart, o outline.Part) Part {
	out := Part{Source: string(k.Source), Name: o.Name, Bits: o.Bits, Methods: o.Methods}
	switch k.Source {
	case policy.Header:
		out.Name = strings.ToLower(o.Name)
	case policy.CEL:
		c.Add(field, fault.Quote("cel:"+k.Of.String()), "nginx does not evaluate expressions in keys: use a header, a cookie or another part of the request, or %s", elsewhere)
	case policy.Form, policy.JSON:
		c.Add(field, fault.Quote(k.String()), "nginx does not read the bodies of requests: put this policy into Weir's gateway, see docs/nginx.md")
	case policy.Claim:
		c.Add(field, fault.Quote("claim:"+o.Name), "nginx does not read JSON Web Tokens: use a header that carries the claim, or %s", elsewhere)
	}
	return out
}

// limits returns the positions of limits in the plan's Rules.
func (c *compiler) limits(field string, list []weir.Limit) []int {
	out := make([]int, 0, len(list))
	for _, l := range list {
		out = append(out, c.rule(field, l))
	}
	return out
}

func (c *compiler) onDenied(d policy.OnDenied) OnDenied {
	out := OnDenied{Status: d.Status, Redirect: d.Redirect, Headers: d.Headers}
	c.text("on_denied.body", d.Body)
	c.text("on_denied.content_type", d.ContentType)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		c.text("on_denied.headers."+name, d.Headers[name])
	}
	switch {
	case d.Redirect != "":
	case d.IsProblem():
		out.Problem = true
	default:
		out.Body, out.ContentType = d.Body, d.ContentType
	}
	return out
}
