package rls

import (
	"fmt"
	"math"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

// The limit is part of the name of a state. A limit in a request may differ with every
// request, and would then never be reached. So the hits of such a descriptor are counted
// under the largest limit of each unit. A limit of c equals the largest limit with all
// but c tokens reserved: n hits fit if the reserved tokens and n fit together. A peek
// checks that in the same step, before the hits are taken.
const largest = math.MaxUint32

// maxOverrides is the size of the cache of limits in requests.
const maxOverrides = 4096

// overrides caches the limits in requests.
type overrides struct {
	mu    sync.Mutex
	cache map[overrideKey]*override
}

// An overrideKey is a limit as in a request.
type overrideKey struct {
	count uint32
	unit  typepb.RateLimitUnit
}

// An override is a limit in a request, and the limit under which its hits are counted.
type override struct {
	limit   ratelimit.Limit
	counted weir.Limit
}

// reserved returns the number of reserved tokens.
func (o *override) reserved() int64 { return largest - int64(o.limit.RequestsPerUnit) }

// of returns the limit of a request.
func (o *overrides) of(from *common.RateLimitDescriptor_RateLimitOverride) (*override, error) {
	b := overrideKey{from.GetRequestsPerUnit(), from.GetUnit()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.cache[b]; l != nil {
		return l, nil
	}
	l := &override{limit: ratelimit.Limit{RequestsPerUnit: b.count, Window: window(b.unit)}}
	if l.limit.Window == 0 {
		return nil, fmt.Errorf("limit.unit: want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR, got %s", b.unit)
	}
	var err error
	if l.counted, err = ratelimit.FixedWindow(largest, l.limit.Window); err == nil && b.count > 0 {
		l.limit.Limit, err = ratelimit.FixedWindow(int64(b.count), l.limit.Window)
	}
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if o.cache == nil || len(o.cache) >= maxOverrides {
		o.cache = map[overrideKey]*override{}
	}
	o.cache[b] = l
	return l, nil
}

// window returns the length of a unit; 0 if it is unknown.
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
