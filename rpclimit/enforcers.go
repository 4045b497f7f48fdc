package rpclimit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// NewEnforcers returns an Enforcer for calls, and one for the messages of calls whose client
// streams, which is nil if forMessages is. A policy for calls cannot find its cost in a
// message, and one for messages cannot depend on an outcome.
func NewEnforcers(store weir.Store, forCalls, forMessages *policy.Set, c enforce.Config) (calls, messages *enforce.Enforcer, err error) {
	switch {
	case store == nil:
		return nil, nil, fmt.Errorf("rpclimit: store: %w: got nil, want a store", weir.ErrInvalid)
	case forCalls == nil:
		return nil, nil, fmt.Errorf("rpclimit: policies: %w: got nil, want a set", weir.ErrInvalid)
	}
	for _, p := range forCalls.Policies() {
		if pc := p.Config(); pc.Mode != policy.Off && pc.Settle.JSON != "" {
			return nil, nil, fmt.Errorf("rpclimit: policy %s: cost.json %.60q: %w: want cost.header, which is metadata: the client chooses the encoding of messages", p.Name(), pc.Settle.JSON, weir.ErrInvalid)
		}
	}
	if calls, err = enforce.New(store, forCalls, c); err != nil || forMessages == nil {
		return calls, nil, err
	}
	for _, p := range forMessages.Policies() {
		if err := checkMessages(p.Config()); err != nil {
			return nil, nil, fmt.Errorf("rpclimit: messages: policy %s: %w", p.Name(), err)
		}
	}
	c.NoResponse = true
	if messages, err = enforce.New(store, forMessages, c); err != nil {
		return nil, nil, fmt.Errorf("rpclimit: messages: %w", err)
	}
	return calls, messages, nil
}

// checkMessages returns an error for a policy that depends on an outcome. A message has none.
func checkMessages(c policy.Config) error {
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
	return fmt.Errorf("%s %.60q: %w: want what is known when a message arrives: it has no outcome and no duration", field, value, weir.ErrInvalid)
}

// maxCost is the largest cost in metadata, as large as a limit.
const maxCost = 1 << 40

// Cost parses the cost in a value of metadata: digits alone, up to 2^40.
func Cost(value string) (n int64, ok bool) {
	u, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 64)
	return int64(min(u, maxCost)), err == nil && u <= maxCost
}
