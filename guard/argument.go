package guard

import (
	"math"
	"net/netip"
	"strconv"

	"github.com/floodweir/weir/policy"
)

// Policies see a call as a request with two query parameters: who calls, and how many
// times its cost a call is.
const (
	argumentName = "argument"
	timesName    = "times"
)

// A call is what a policy is told of a call.
type call struct {
	argument [1]string
	times    [1]string // "" is once
}

func (c *call) set(key string, n int64) {
	c.argument[0], c.times[0] = key, ""
	if n != 1 {
		c.times[0] = strconv.FormatInt(n, 10)
	}
}

func (c *call) Query(name string) []string {
	switch name {
	case argumentName:
		return c.argument[:]
	case timesName:
		return c.times[:]
	}
	return nil
}

func (*call) Method() string         { return "" }
func (*call) Host() string           { return "" }
func (*call) Path() string           { return "/" }
func (*call) Header(string) []string { return nil }
func (*call) Cookie(string) []string { return nil }
func (*call) ClientIP() netip.Addr   { return netip.Addr{} }

// KeyPart is the part of a rule's key: what the caller of Enter names, once. An empty key
// is the anonymous part, and space around a key is left out.
func KeyPart() policy.KeyPart {
	return policy.KeyPart{Source: policy.CEL, Of: argument{}}
}

// argument is what the caller of Enter names.
type argument struct{}

func (argument) String() string { return argumentName }

func (argument) Eval(a policy.Attributes) (string, error) {
	if v := a.Query(argumentName); len(v) > 0 {
		return v[0], nil
	}
	return "", nil
}

// A price is what a call costs by its rule, times what the caller of EnterN says.
type price struct {
	once int64
	of   policy.Expression[int64] // instead of once, if not nil
}

func (p price) String() string {
	if p.of != nil {
		return p.of.String()
	}
	return strconv.FormatInt(p.once, 10)
}

func (p price) Eval(a policy.Attributes) (int64, error) {
	once := p.once
	if p.of != nil {
		var err error
		if once, err = p.of.Eval(a); err != nil || once < 0 {
			return once, err
		}
	}
	v := a.Query(timesName)
	if len(v) == 0 || v[0] == "" {
		return once, nil
	}
	n, err := strconv.ParseInt(v[0], 10, 64)
	if err != nil || once == 0 || n == 0 {
		return 0, err
	}
	if once > math.MaxInt64/n {
		return math.MaxInt64, nil // above every capacity all the same
	}
	return once * n, nil
}
