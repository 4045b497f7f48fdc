package guard

import (
	"context"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A resolved holds the rules in force for the calls of one name. It is immutable.
type resolved struct {
	set      *policy.Set       // the system's policy, its own, and removed ones
	enforcer *enforce.Enforcer // of set; nil if all its policies are off

	asked    []namedProtection // in force
	reported []namedProtection // in Status, in force or not

	// single is the request of a call with an empty key and without a rule, and singleStore
	// decides it alone: see enforce.Enforcer.Single. The store is nil if there is none.
	single      weir.Request
	singleStore weir.Store

	limits   []weir.Limit
	fromRule bool // limits come from a rule
	mode     policy.Mode
}

// A namedProtection is a Protection with its name in Status: those of the system are called
// "system breaker".
type namedProtection struct {
	Protection
	name string
}

// enforcerConfig returns the configuration of the enforcer of a name.
func (l *ruleSet) enforcerConfig(name string) enforce.Config {
	c := enforce.Config{Options: l.c.Options, DecideCanceled: true}
	if observe := l.c.Observe; observe != nil {
		c.Observe = func(ctx context.Context, _ policy.Attributes, e enforce.Event) { observe(ctx, name, e) }
	}
	return c
}
