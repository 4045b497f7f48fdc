package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// Options say how to compile.
type Options struct {
	// Only are the names of the policies to compile; all if empty.
	Only []string

	// Local is what becomes of on_store_error: local, which nginx cannot do: Open or
	// Closed. Where it is empty, such a policy is refused.
	Local policy.FailMode

	// Now is the instant around which the windows of calendars are told; that of the
	// call if zero.
	Now time.Time
}

// MaxPlan is the largest plan, in bytes of JSON. Every worker of nginx reads it.
const MaxPlan = 4 << 20

// Compile makes the plan of the policies that are not off. An error is Errors: all
// faults at once.
func Compile(set *policy.Set, o Options) (*Plan, error) {
	c := &compiler{
		Collector: fault.Collector{File: "edge", Max: maxErrors},
		plan:      &Plan{Format: Format, Script: redisstore.Script(), Prefix: outline.KeyPrefix(redisstore.DefaultPrefix), Rules: []Rule{}, Policies: []Policy{}},
		local:     o.Local, now: o.Now, rules: map[string]int{}, calendars: map[string]int{},
	}
	if c.now.IsZero() {
		c.now = time.Now()
	}
	if o.Local != "" && o.Local != policy.Open && o.Local != policy.Closed {
		c.Add("local", fault.Quote(string(o.Local)), "want open or closed")
	}
	c.only(set, o.Only)
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
		c.Add("policies", fmt.Sprintf("a plan of %d bytes", len(text)), "want at most %d: fewer overrides, or put the policies that have them behind /v1/auth, see docs/nginx.md", MaxPlan)
	}
	return c.plan, c.Errs.Err()
}

// only reports what is wrong with the names of policies to compile alone.
func (c *compiler) only(set *policy.Set, names []string) {
	zones := map[string]string{}
	for _, name := range names {
		p := set.Policy(name)
		if p == nil || !slices.Contains(set.Policies(), p) { // a candidate goes with its policy
			c.Add("only", fault.Quote(name), "want the name of a policy of the file")
			continue
		}
		zones[p.Bucket()] = name
	}
	for _, p := range set.Policies() {
		name := zones[p.Bucket()]
		if name != "" && p.Config().Mode != policy.Off && !slices.Contains(names, p.Name()) {
			c.Add("only", fault.Quote(name), "want policy %s with it: a request counts once in the zone that they share", fault.Quote(p.Name()))
		}
	}
}

// JSON is p as the Lua reads it, in one line.
func (p *Plan) JSON() string { return compact(p) }

// JSON is s as the Lua reads it, in one line.
func (s *Settings) JSON() string { return compact(s) }

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a plan has no value that JSON cannot say
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
