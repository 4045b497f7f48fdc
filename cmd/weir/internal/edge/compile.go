package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// Options configures Compile.
type Options struct {
	// Only lists the names of the policies to compile; all if empty.
	Only []string

	// Local replaces on_store_error: local, which nginx does not support, by Open or
	// Closed; Closed if empty.
	Local policy.FailMode

	// Regions means that regions divide limits, which nginx does not support.
	Regions bool
}

// MaxPlan is the maximum size of a plan, in bytes of JSON. Every nginx worker reads it.
const MaxPlan = 4 << 20

// Compile compiles the policies that are not off into a plan. An error is Errors: all
// faults at once.
func Compile(set *policy.Set, o Options) (*Plan, error) {
	c := &compiler{
		Collector: fault.Collector{File: "edge", Max: maxErrors},
		plan:      &Plan{Format: Format, Script: redisstore.Script(), Prefix: outline.KeyPrefix(redisstore.DefaultPrefix), Rules: []Rule{}, Policies: []Policy{}},
		local:     o.Local, regions: o.Regions, rules: map[string]int{},
	}
	if o.Local != "" && o.Local != policy.Open && o.Local != policy.Closed {
		c.Add("local", fault.Quote(string(o.Local)), "want open or closed")
	}
	c.only(set, o.Only)
	if n := len(set.Exceptions()); n > 0 {
		c.Add("except", count(n), "nginx does not exempt requests from policies: use a location without access_by_lua_block, or %s", elsewhere)
	}
	for _, p := range set.Policies() {
		if p.Config().Mode != policy.Off && (len(o.Only) == 0 || slices.Contains(o.Only, p.Name())) {
			c.policy(p)
		}
	}
	if err := c.Errs.Err(); err != nil {
		return nil, err
	}
	if text := c.plan.JSON(); len(text) > MaxPlan {
		c.Policy = ""
		c.Add("policies", fmt.Sprintf("a plan of %d bytes", len(text)), "want at most %d: use fewer overrides, or put the policies with overrides behind /v1/auth, see docs/nginx.md", MaxPlan)
	}
	return c.plan, c.Errs.Err()
}

// only checks Options.Only.
func (c *compiler) only(set *policy.Set, names []string) {
	zones := map[string]string{}
	for _, name := range names {
		p := set.Policy(name)
		if p == nil || !slices.Contains(set.Policies(), p) { // a candidate belongs to its policy
			c.Add("only", fault.Quote(name), "want the name of a policy of the file")
			continue
		}
		zones[p.Bucket()] = name
	}
	for _, p := range set.Policies() {
		name := zones[p.Bucket()]
		if name != "" && p.Config().Mode != policy.Off && !slices.Contains(names, p.Name()) {
			c.Add("only", fault.Quote(name), "want policy %s too: they share a zone, in which a request counts once", fault.Quote(p.Name()))
		}
	}
}

// CompileAdjusted returns the limits of a raised key for nginx, as JSON. An error says why it keeps the
// limits of its plan; the JSON has the reason too.
func CompileAdjusted(limits []weir.Limit) (text string, err error) {
	c := &compiler{Collector: fault.Collector{File: "edge", Max: maxErrors}, plan: &Plan{}, rules: map[string]int{}}
	c.limits("limits", limits)
	out := Adjusted{Format: Format, Rules: c.plan.Rules}
	if err = c.Errs.Err(); err != nil {
		out.Rules, out.Problem = nil, err.Error()
	}
	return compact(out), err
}

// JSON returns p as the Lua reads it, on one line.
func (p *Plan) JSON() string { return compact(p) }

// JSON returns s as the Lua reads it, on one line.
func (s *Settings) JSON() string { return compact(s) }

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // every value of a plan has a JSON form
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
