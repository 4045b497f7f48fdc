package rls

import (
	"fmt"
	"slices"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

const (
	// maxMade is how many limits that requests brought are kept made.
	maxMade = 4096
	// maxSeen is how many keys of such limits are remembered, of each of two
	// generations.
	maxSeen = 16384
)

// overrides are the limits that come with requests. Limits are part of the name of a
// state, so one that changed would start afresh: a load-dependent limit would never be
// reached. The limits that a key had last are therefore remembered, for as many keys as
// there is room.
type overrides struct {
	mu      sync.Mutex
	made    map[brought]*ratelimit.Limit
	seen    map[string][]weir.Limit // by key, newest first; at most maxFormer and the one in force
	earlier map[string][]weir.Limit
}

// A brought limit is what a request says.
type brought struct {
	count uint32
	unit  typepb.RateLimitUnit
}

// limit is the limit that a request brings.
func (o *overrides) limit(from *common.RateLimitDescriptor_RateLimitOverride) (*ratelimit.Limit, error) {
	b := brought{from.GetRequestsPerUnit(), from.GetUnit()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.made[b]; l != nil {
		return l, nil
	}
	l := &ratelimit.Limit{RequestsPerUnit: b.count, Window: window(b.unit)}
	if l.Window == 0 {
		return nil, fmt.Errorf("limit.unit: want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR, got %s", b.unit)
	}
	if b.count > 0 {
		var err error
		if l.Limit, err = ratelimit.FixedWindow(int64(b.count), l.Window); err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
	}
	if o.made == nil || len(o.made) >= maxMade {
		o.made = map[brought]*ratelimit.Limit{}
	}
	o.made[b] = l
	return l, nil
}

// window is the length of a unit; 0 if there is no such unit.
func window(u typepb.RateLimitUnit) time.Duration {
	const day = 24 * time.Hour
	switch u {
	case typepb.RateLimitUnit_SECOND:
		return time.Second
	case typepb.RateLimitUnit_MINUTE:
		return time.Minute
	case typepb.RateLimitUnit_HOUR:
		return time.Hour
	case typepb.RateLimitUnit_DAY:
		return day
	case typepb.RateLimitUnit_MONTH:
		return 30 * day
	case typepb.RateLimitUnit_YEAR:
		return 365 * day
	}
	return 0
}

// former are the limits that key had before limit, newest first; it is remembered that
// the key has limit now.
func (o *overrides) former(key string, limit weir.Limit) []weir.Limit {
	o.mu.Lock()
	defer o.mu.Unlock()
	had, fresh := o.seen[key]
	if !fresh {
		had = o.earlier[key]
	}
	if len(had) == 0 || !had[0].Equal(limit) {
		now := make([]weir.Limit, 1, len(had)+1)
		now[0] = limit
		for _, l := range had {
			if len(now) <= maxFormer && !l.Equal(limit) {
				now = append(now, l)
			}
		}
		had, fresh = now, false
	}
	if !fresh {
		if o.seen == nil || len(o.seen) >= maxSeen {
			o.seen, o.earlier = map[string][]weir.Limit{}, o.seen
		}
		o.seen[key] = had
	}
	return slices.Clip(had[1:])
}
