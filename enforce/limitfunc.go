package enforce

import (
	"context"
	"fmt"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A keyLimiter replaces the limit of a policy by that of its key.
type keyLimiter struct {
	limiter *weir.Limiter
	part    policy.KeyPart
}

// keyLimiters returns a keyLimiter for each policy of set, by name.
func keyLimiters(store weir.Store, set *policy.Set, limit weir.LimitFunc) (map[string]keyLimiter, error) {
	// A Limiter rejects an empty key, so setLimits adds a letter before each key.
	stripped := func(ctx context.Context, key string) (weir.Limit, error) { return limit(ctx, key[1:]) }
	all := map[string]keyLimiter{}
	for _, p := range set.Policies() {
		c := p.Config()
		if len(c.Key) != 1 || c.Key[0].Source != policy.CEL || len(c.Limits) != 1 {
			return nil, fmt.Errorf("enforce: LimitFunc: policy %s: %w: got key %v and %d limits, want one key function and one limit", p.Name(), weir.ErrInvalid, c.Key, len(c.Limits))
		}
		l, err := weir.New(store, weir.Limit{}, weir.Config{LimitFunc: stripped})
		if err != nil {
			return nil, fmt.Errorf("enforce: LimitFunc: %w", err)
		}
		all[p.Name()] = keyLimiter{l, c.Key[0]}
	}
	return all, nil
}

// setLimits replaces the limits of the requests of charges, if there is a LimitFunc.
func (e *Enforcer) setLimits(p *Admission, charges []policy.Charge) error {
	if e.limiters == nil {
		return nil
	}
	for _, c := range charges {
		l := e.limiters[c.Policy.Name()]
		key, err := l.part.Of.Eval(p.a)
		if err != nil {
			key = ""
		}
		of, err := l.limiter.Request(p.ctx, "k"+strings.TrimSpace(key), 0)
		if err != nil {
			return err
		}
		if of.Limit.IsConcurrency() {
			return fmt.Errorf("enforce: LimitFunc: key %.40q: %w: got concurrency limit %s, want a rate limit", key, weir.ErrInvalid, of.Limit)
		}
		for i := c.From; i < c.To; i++ {
			r := &p.q.Requests[i]
			r.Limit, r.From, r.Carry = of.Limit, of.From, of.Carry
		}
	}
	return nil
}
