package rpclimit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// Gates are what decides about calls, and about the messages of calls whose client
// streams; that is nil if forMessages is. A policy for calls may not look for a cost in a
// message, and one for messages not wait for an end.
func NewEnforcers(store weir.Store, forCalls, forMessages *policy.Set, c enforce.Config) (calls, messages *enforce.Enforcer, err error) {
	switch {
	case store == nil:
		return nil, nil, fmt.Errorf("store: %w: want a store, got nil", weir.ErrInvalid)
	case forCalls == nil:
		return nil, nil, fmt.Errorf("policies: %w: want a set, got nil", weir.ErrInvalid)
	}
	for _, p := range forCalls.Policies() {
		if pc := p.Config(); pc.Mode != policy.Off && pc.Settle.JSON != "" {
			return nil, nil, fmt.Errorf("policy %s: cost.json %.60q: %w: want cost.header, which is metadata: what a message is on the wire the client chooses", p.Name(), pc.Settle.JSON, weir.ErrInvalid)
		}
	}
	if calls, err = enforce.New(store, forCalls, c); err != nil || forMessages == nil {
		return calls, nil, err
	}
	for _, p := range forMessages.Policies() {
		if err := endless(p.Config()); err != nil {
			return nil, nil, fmt.Errorf("messages: policy %s: %w", p.Name(), err)
		}
	}
	c.NoResponse = true
	if messages, err = enforce.New(store, forMessages, c); err != nil {
		return nil, nil, fmt.Errorf("messages: %w", err)
	}
	return calls, messages, nil
}

// endless refuses a policy that waits for an end, which a message has not.
func endless(c policy.Config) error {
	field, value := "", ""
	switch {
	case c.Mode == policy.Off:
	case c.Count == policy.CountFailures || c.Count == policy.CountSuccesses:
		field, value = "count", string(c.Count)
	case c.Settle.Header != "":
		field, value = "cost.header", c.Settle.Header
	case c.Settle.JSON != "":
		field, value = "cost.json", c.Settle.JSON
	default:
		for i, l := range c.Limits {
			if l.Config().Algorithm == weir.Concurrency {
				field, value = fmt.Sprintf("limits[%d]", i), l.String()
			}
		}
	}
	if field == "" {
		return nil
	}
	return fmt.Errorf("%s %.60q: %w: want what is known when a message comes: it has no outcome, and runs for no time", field, value, weir.ErrInvalid)
}

// maxTold is the largest cost that a call can tell, as large as a limit.
const maxTold = 1 << 40

// Cost is the cost that a value of metadata tells: digits alone, up to 2^40.
func Cost(value string) (n int64, ok bool) {
	u, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 64)
	return int64(min(u, maxTold)), err == nil && u <= maxTold
}
