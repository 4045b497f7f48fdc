package weir

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
)

// A LimitFunc returns the limit of a key, such as the limit of a tenant from a
// database. It is called for every request, by many goroutines at once, so it should
// cache what it looks up. An error of it denies nothing: it is returned instead of a
// decision.
//
// The limit of a key may change at any time. The key keeps its state: what it owes
// under the former limit is carried over. A Limiter remembers the limits of 65,536
// keys for that, not counting keys that always had the zero Limit. Beyond that it forgets
// keys, and remembers the last 8 different limits of forgotten keys: their states are
// carried over too. Only under an older limit does a forgotten key start afresh when its
// limit changes. With a Config.Name, which every such limit should have if users choose
// limits, nothing is forgotten.
type LimitFunc func(ctx context.Context, key string) (Limit, error)

const (
	maxKeyLimits = 1 << 16 // keys whose limits are remembered
	maxForgotten = 8       // different limits of forgotten keys that are remembered
)

// keyLimits are the limits of keys with a limit of their own.
type keyLimits struct {
	limit LimitFunc // nil if keys have none
	name  string
	carry Carry
	seed  maphash.Seed

	mu        sync.RWMutex
	byKey     map[uint64]*rules // by hash of the key; guarded by mu, as those below
	forgotten []Limit           // of keys that byKey had, newest first; replaced, never changed
	unknown   *rules            // of keys with the usual limit that byKey may have had
	usual     *rules            // that unknown is made of
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
	if known == nil && limit.Equal(usual.limit) {
		switch {
		case k.forgotten == nil:
			known = usual
		case k.usual == usual:
			known = k.unknown
		}
	}
	k.mu.RUnlock()
	if known != nil && known.limit.Equal(limit) {
		return *known, nil
	}
	return *k.change(hash, limit, usual), nil
}

// change remembers another limit of a key.
func (k *keyLimits) change(hash uint64, limit Limit, usual *rules) *rules {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.byKey[hash]
	if known != nil && known.limit.Equal(limit) {
		return known
	}
	next := &rules{limit: limit, carry: k.carry}
	if known != nil {
		next = known.replace(limit, k.carry)
	}
	next.add(maxFrom, usual.limit)
	next.add(maxFrom, usual.from...)
	if known == nil {
		if !limit.Equal(usual.limit) && len(k.byKey) >= maxKeyLimits {
			k.forget()
		}
		next.add(math.MaxInt, k.forgotten...)
		if limit.Equal(usual.limit) {
			if len(usual.from) > 0 {
				next.carry = usual.carry
			}
			k.unknown, k.usual = next, usual
			return next
		}
	}
	k.byKey[hash] = next
	return next
}

// forget removes a key, and remembers its limit. It requires mu.
func (k *keyLimits) forget() {
	for hash, r := range k.byKey {
		if len(k.forgotten) == 0 || k.forgotten[0] != r.limit {
			k.forgotten = append([]Limit{r.limit}, slices.DeleteFunc(slices.Clone(k.forgotten), r.limit.Equal)...)
			k.forgotten = k.forgotten[:min(len(k.forgotten), maxForgotten)]
			k.unknown, k.usual = nil, nil
		}
		delete(k.byKey, hash)
		return
	}
}
