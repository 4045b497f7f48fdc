package guard

import (
	"context"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A ruling is what is asked about the calls of one name. It is immutable.
type ruling struct {
	set  *policy.Set       // of the system's policy and its own, and of such as are gone
	gate *enforce.Enforcer // of set; nil if it asks nothing

	wards []named // that are asked
	told  []named // that are told of, asked or not

	limits []weir.Limit
	rule   bool // limits come from a rule
	mode   policy.Mode
}

// A named is a ward and what it is called: one of the system "system breaker".
type named struct {
	Protection
	name string
}

type atomicRuling = atomic.Pointer[ruling]

// gateConfig is the configuration of the gate of a name.
func (l *law) gateConfig(name string) enforce.Config {
	c := enforce.Config{Options: l.c.Options}
	if observe := l.c.Observe; observe != nil {
		c.Observe = func(ctx context.Context, _ policy.Attributes, e enforce.Event) { observe(ctx, name, e) }
	}
	return c
}
