package rpclimit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/policy"
)

// A ServerConfig configures the server side of an RPC framework. Its zero value trusts no proxy
// and sends the fields of the current draft and X-RateLimit-*.
type ServerConfig struct {
	enforce.Options

	// Client says how the client's address is found: by default it is the peer. If the
	// peer is a trusted proxy, it is found in X-Forwarded-For or Forwarded.
	Client httplimit.ClientAddress

	// Fields are the metadata to send; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// RetryJitter is the maximum random time that is added to retry delays, so that
	// clients do not all return at once; none if zero, at most an hour.
	RetryJitter time.Duration

	// Protect rejects calls, before the policies, while a resource is overloaded; none if zero.
	// RetryJitter then is a second if zero.
	Protect ProtectConfig

	// Messages, if not nil, are policies for every message of a call whose client
	// streams, in addition to those for the call. They see the same attributes, and count
	// a message when it is admitted, whatever the outcome of the call. A message that a
	// policy holds back stops the client from sending more. A denied message ends the
	// stream with the denial.
	Messages *policy.Set

	// Observe, if not nil, is called with the outcome of a call or a message, once for
	// each policy that applies to it; see enforce.Unsettled for the exception. The path
	// of the attributes is the full method. It must return quickly.
	Observe func(ctx context.Context, a policy.Attributes, e enforce.Event)
}

// NewEnforcers returns an Enforcer for calls, and one for the messages of calls whose client
// streams, which is nil if c.Messages is. A policy for calls cannot find its cost in a message,
// and one for messages cannot depend on an outcome.
func NewEnforcers(store weir.Store, forCalls *policy.Set, c ServerConfig) (calls, messages *enforce.Enforcer, err error) {
	switch {
	case missing.Value(store):
		return nil, nil, fmt.Errorf("rpclimit: store: %w: got nil, want a store", weir.ErrInvalid)
	case forCalls == nil:
		return nil, nil, fmt.Errorf("rpclimit: policies: %w: got nil, want a set", weir.ErrInvalid)
	}
	hc := httplimit.Config{Client: c.Client, Fields: c.Fields, RetryJitter: c.RetryJitter}
	if err := hc.Check(); err != nil {
		return nil, nil, err
	}
	if err := checkCalls(forCalls); err != nil {
		return nil, nil, err
	}
	ec := enforce.Config{Options: c.Options, Observe: c.Observe}
	if calls, err = enforce.New(store, forCalls, ec); err != nil {
		return nil, nil, err
	}
	if c.Messages == nil {
		return calls, nil, nil
	}
	for _, p := range c.Messages.Policies() {
		if err := checkMessages(p.Config()); err != nil {
			return nil, nil, fmt.Errorf("rpclimit: messages: policy %s: %w", p.Name(), err)
		}
	}
	ec.NoResponse = true
	if messages, err = enforce.New(store, c.Messages, ec); err != nil {
		return nil, nil, fmt.Errorf("rpclimit: messages: %w", err)
	}
	return calls, messages, nil
}

// SetPolicies replaces the policies of an Enforcer for calls: see [enforce.Enforcer.SetPolicies].
func SetPolicies(calls *enforce.Enforcer, set *policy.Set) error {
	if set != nil {
		if err := checkCalls(set); err != nil {
			return err
		}
	}
	return calls.SetPolicies(set)
}

// checkCalls returns an error for a policy that reads the cost from a message.
func checkCalls(set *policy.Set) error {
	for _, p := range set.Policies() {
		c := p.Config()
		switch {
		case c.Mode == policy.Off:
		case c.Settle.Meter != nil:
			return fmt.Errorf("rpclimit: policy %s: budget: %w: want cost.header, which is metadata: the client chooses the encoding of messages", p.Name(), weir.ErrInvalid)
		case c.Settle.JSON != "":
			return fmt.Errorf("rpclimit: policy %s: cost.json %.60q: %w: want cost.header, which is metadata: the client chooses the encoding of messages", p.Name(), c.Settle.JSON, weir.ErrInvalid)
		}
	}
	return nil
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
			if l.IsConcurrency() {
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

// Cost parses the cost in a value of metadata: digits alone, up to 2^40. An error wraps
// budget.ErrNoUsage for an empty value, and budget.ErrBadUsage for another.
func Cost(value string) (n int64, err error) {
	if value = strings.Trim(value, " \t"); value == "" {
		return 0, budget.ErrNoUsage
	}
	u, err := strconv.ParseUint(value, 10, 64)
	if err != nil || u > maxCost {
		return 0, fmt.Errorf("%w: got %s, want a whole number from 0 to %d", budget.ErrBadUsage, fault.Quote(value), int64(maxCost))
	}
	return int64(u), nil
}
