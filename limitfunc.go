package weir

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
)

// A LimitFunc returns the limit of a key, such as the limit of a tenant from a
// database. It is called for every request, by many goroutines at once, so it should
// cache what it looks up. An error of it denies nothing: it is returned instead of a
// decision.
//
// The limit of a key may change at any time. The key keeps its state: what it owes
// under the former limit is carried over. A Limiter remembers the limits of 65,536
// keys for that, not counting keys that always had the zero Limit.
type LimitFunc func(ctx context.Context, key string) (Limit, error)

// maxKeyLimits is the number of keys whose limits are remembered.
const maxKeyLimits = 1 << 16

// keyLimits are the limits of keys with a limit of their own.
type keyLimits struct {
	limit LimitFunc // nil if keys have none
	name  string
	carry Carry
	seed  maphash.Seed

	mu    sync.RWMutex
	byKey map[uint64]*rules // by hash of the key; guarded by mu
}

func (k *keyLimits) init(c Config) {
	if c.LimitFunc != nil {
		k.limit, k.name, k.carry, k.seed, k.byKey = c.LimitFunc, c.Name, c.Carry, maphash.MakeSeed(), map[uint64]*rules{}
	}
}

// rules returns the rules of a key. usual are those of keys without a limit of their
// own. If two keys have one hash, their rules name limits of both as replaced ones,
// under which a key has no state: that changes no decision.
func (k *keyLimits) rules(ctx context.Context, key string, usual *rules) (rules, error) {
	limit, err := k.limit(ctx, key)
	if err != nil {
		return rules{}, fmt.Errorf("weir: LimitFunc: key %.40q: %w", key, err)
	}
	if limit.IsZero() {
		if limit = usual.limit; limit.IsZero() {
			return rules{}, fmt.Errorf("weir: LimitFunc: key %.40q: %w: got the zero Limit, want a limit, as New had none", key, ErrInvalid)
		}
	}
	if limit = named(limit, k.name); k.name != "" && limit.s.Named {
		return rules{limit: limit}, nil // the stored state has the limit before
	}
	hash := maphash.String(k.seed, key)
	k.mu.RLock()
	known := k.byKey[hash]
	k.mu.RUnlock()
	switch {
	case known == nil && limit.Equal(usual.limit):
		return *usual, nil
	case known != nil && known.limit.Equal(limit):
		return *known, nil
	}
	return *k.change(hash, limit, usual), nil
}

// change remembers another limit of a key.
func (k *keyLimits) change(hash uint64, limit Limit, usual *rules) *rules {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.byKey[hash]
	if known == nil {
		known = usual
		if len(k.byKey) >= maxKeyLimits {
			for any := range k.byKey {
				delete(k.byKey, any)
				break
			}
		}
	} else if known.limit.Equal(limit) {
		return known
	}
	next := known.replace(limit, k.carry)
	next.add(maxFrom, usual.limit)
	next.add(maxFrom, usual.from...)
	k.byKey[hash] = next
	return next
}
