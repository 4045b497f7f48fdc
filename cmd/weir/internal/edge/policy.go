package edge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/policy"
)

// A compiler makes a plan.
type compiler struct {
	fault.Collector
	plan      *Plan
	local     policy.FailMode
	now       time.Time
	rules     map[string]int // places in plan.Rules, from 1, by the limit
	calendars map[string]int // places in plan.Calendars, from 1, by Calendar.Of
}

// policy adds p to the plan.
func (c *compiler) policy(p *policy.Policy) {
	cfg, o := p.Config(), p.Outline()
	c.Policy = cfg.Name
	out := Policy{
		Name: cfg.Name, Bucket: p.Bucket(), Shadow: cfg.Mode == policy.Shadow, Percent: cfg.Percent,
		Limits: c.limits(cfg.Limits), Cost: cfg.Cost, Settle: cfg.Settle.Header, Count: string(cfg.Count),
		OnDenied: c.onDenied(cfg.OnDenied), OnStoreError: string(cfg.OnStoreError), Carry: int(cfg.Carry),
		Match: c.match(cfg.Match, o),
	}
	for i, k := range o.Key {
		out.Key = append(out.Key, c.part(fmt.Sprintf("key[%d]", i), cfg.Key[i], k))
	}
	if cfg.CostOf != nil {
		out.CostOf = c.expression("cost", cfg.CostOf)
	}
	if cfg.Settle.JSON != "" {
		c.Add("cost.json", fault.Quote(cfg.Settle.JSON), "nginx does not read the body of a response: have the upstream tell the cost in a header (cost.header), or put this policy into Weir's gateway, see docs/nginx.md")
	}
	out.Failures = cfg.Failures
	if cfg.OnStoreError == policy.Local {
		if c.local == "" {
			c.Add("on_store_error", "local", "nginx has no memory in which to count without the store: want open or closed there, or say which it is to be for nginx alone with --local open or --local closed")
		}
		out.OnStoreError = string(c.local)
	}
	if len(cfg.Candidate) > 0 {
		out.Candidate = c.limits(cfg.Candidate)
	}
	c.overrides(&out, cfg, o)
	c.plan.Policies = append(c.plan.Policies, out)
}

// overrides adds the overrides of a policy. Rules are numbered in the order of the
// file, which Exact has not.
func (c *compiler) overrides(out *Policy, cfg policy.Config, o outline.Policy) {
	for _, override := range cfg.Overrides {
		c.limits(override.Limits)
	}
	if len(o.Exact) > 0 {
		out.Exact = make(map[string][]int, len(o.Exact))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Exact)) {
		c.text("overrides", key)
		out.Exact[key] = c.limits(cfg.Overrides[o.Exact[key]].Limits)
	}
	for _, w := range o.Wildcards {
		x := Wildcard{Limits: c.limits(cfg.Overrides[w.Override].Limits)}
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

// text notes a text that JSON cannot say.
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
	out := Part{Source: string(k.Source), Name: o.Name, Bits: o.Bits, Header: strings.ToLower(o.Header), Bearer: o.Bearer, Methods: o.Methods}
	switch k.Source {
	case policy.Header:
		out.Name = strings.ToLower(o.Name)
	case policy.CEL:
		out.Of = c.expression(field, k.Of)
	}
	return out
}

// limits is the places of limits in the plan's Rules.
func (c *compiler) limits(list []weir.Limit) []int {
	out := make([]int, 0, len(list))
	for _, l := range list {
		out = append(out, c.rule(l))
	}
	return out
}

func (c *compiler) onDenied(d policy.OnDenied) OnDenied {
	out := OnDenied{Status: d.Status, Redirect: d.Redirect, Headers: d.Headers, Wait: d.Wait.Microseconds()}
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
