package guard

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/floodweir/weir/policy"
)

// A call is a request with two query parameters for its policies: the key of the caller, and a
// factor of the cost.
const (
	argumentName = "argument"
	timesName    = "times"
)

// A call describes a call to policies.
type call struct {
	argument [2]string // the key, and the error of the function that returns it
	times    [1]string // "" means 1
}

func (c *call) set(key string, n int64, fault error) {
	c.argument, c.times[0] = [2]string{key}, ""
	if fault != nil {
		c.argument[1] = fault.Error()
	}
	if n != 1 {
		c.times[0] = strconv.FormatInt(n, 10)
	}
}

func (c *call) Query(name string) []string {
	switch name {
	case argumentName:
		if c.argument[1] == "" {
			return c.argument[:1]
		}
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

// keyOf calls the function that returns the key of a call. If it panics, the key is empty.
func keyOf(f func() string) (key string, fault error) {
	defer func() {
		if p := recover(); p != nil {
			key, fault = "", fmt.Errorf("panic: %v", p)
		}
	}()
	return f(), nil
}

// KeyPart returns the only part of a rule's key: the key that the caller passes to Enter. All
// calls with an empty key share one bucket. Space around a key is cut off.
func KeyPart() policy.KeyPart {
	return policy.KeyPart{Source: policy.CEL, Of: argument{}}
}

// argument is the expression of KeyPart.
type argument struct{}

func (argument) String() string { return argumentName }

func (argument) Eval(a policy.Attributes) (string, error) {
	switch v := a.Query(argumentName); len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	default:
		return "", errors.New(v[1])
	}
}

// A callCost is the cost of a call by its rule, times the n of EnterN.
type callCost struct {
	once int64
	of   policy.Expression[int64] // instead of once, if not nil
}

func (p callCost) String() string {
	if p.of != nil {
		return p.of.String()
	}
	return strconv.FormatInt(p.once, 10)
}

func (p callCost) Eval(a policy.Attributes) (int64, error) {
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
		return math.MaxInt64, nil // above every capacity
	}
	return once * n, nil
}
