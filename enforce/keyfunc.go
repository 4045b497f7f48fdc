package enforce

import (
	"fmt"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// KeyFunc returns a part of a policy's key that key computes. A is the type of the attributes
// that an interface passes to Enter. Space around the text is cut off. Requests with an empty
// text share one bucket, as those without a header that a key names, so that leaving it out
// does not avoid the limit.
func KeyFunc[A policy.Attributes](key func(A) string) policy.KeyPart {
	return policy.KeyPart{Source: policy.CEL, Of: keyFunc[A](key)}
}

type keyFunc[A policy.Attributes] func(A) string

// Eval implements [policy.Expression].
func (f keyFunc[A]) Eval(a policy.Attributes) (string, error) {
	if v, ok := a.(interface{ Unwrap() policy.Attributes }); ok {
		a = v.Unwrap()
	}
	of, ok := a.(A)
	if !ok {
		return "", fmt.Errorf("enforce: key function: got attributes of type %T, want %T", a, of)
	}
	return f(of), nil
}

// String implements [policy.Expression].
func (keyFunc[A]) String() string { return "a function" }

// OneLimit returns the policies of the short forms such as httplimit.Limit: one policy, called
// "limit", without conditions. It panics if the limit is invalid.
func OneLimit(limit string, key policy.KeyPart) *policy.Set {
	p, err := policy.New(policy.Config{Name: "limit", Key: []policy.KeyPart{key}, Limits: []weir.Limit{weir.MustLimit(limit)}})
	if err != nil {
		panic(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		panic(err)
	}
	return set
}
