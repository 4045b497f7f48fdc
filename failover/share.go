package failover

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// MaxNodes is the largest number of nodes among which a limit is divided.
const MaxNodes = 1 << 20

// Share returns the part of a limit that one of several nodes decides while the shared store
// is unavailable. An error wraps weir.ErrInvalid.
//
//   - A bucket keeps the exact rate: its count per nodes times its period. Its capacity is
//     divided by nodes and rounded down, to at least one token. So are the part of a queue
//     without delay and the initial tokens.
//   - Windows, intervals and a sliding_log get the count divided by nodes, rounded down, in
//     the same period. If that is less than one, it is one in a period that is longer by the
//     same factor. A calendar window keeps its length and gets at least one.
//   - A tenant_bucket is divided like a bucket, and so are the bursts of its tenants, to at
//     least one token each.
//   - Slots of concurrency are divided and rounded down, to at least one.
//
// Each share keeps the bound of its algorithm. All shares together admit at most what the
// limit does, if its count and its capacity are at least nodes. Below that every node has
// one token, so up to nodes requests may be admitted at once. In the long run they admit no
// more than the limit, except for a calendar. The share of one node is the limit itself.
//
// A period is at most 100 years. A rate that needs a longer one is divided like a window, and
// a leaky_bucket that is too slow for nginx computes exactly.
func Share(l weir.Limit, nodes int) (weir.Limit, error) {
	switch {
	case l.IsZero():
		return weir.Limit{}, fmt.Errorf("failover: limit: %w: got the zero Limit, want a limit", weir.ErrInvalid)
	case nodes < 1 || nodes > MaxNodes:
		return weir.Limit{}, fmt.Errorf("failover: nodes: %w: got %d, want 1 to %d", weir.ErrInvalid, nodes, MaxNodes)
	case nodes == 1:
		return l, nil
	}
	return share(l, int64(nodes)), nil
}

// share returns the share of a limit among two nodes or more.
func share(l weir.Limit, nodes int64) weir.Limit {
	config := l.Config()
	switch c := config.(type) {
	case weir.TokenBucket:
		c.Burst = max(1, c.Burst/nodes)
		if c.Initial != nil {
			initial := *c.Initial / nodes
			c.Initial = &initial
		}
		if c.Interval { // tokens that are added together are divided; the interval stays
			c.Count, c.Period = divide(c.Count, c.Period, nodes, maxPeriod, 0)
		} else {
			c.Count, c.Period = divideRate(c.Count, c.Period, nodes)
		}
		config = c
	case weir.LeakyBucket:
		c.Burst = max(1, (c.Burst+1)/nodes) - 1
		c.QueueFree = min(c.QueueFree/nodes, c.Burst)
		c.Count, c.Period = divideRate(c.Count, c.Period, nodes)
		config = c
	case weir.FixedWindow:
		if c.Calendar != "" {
			c.Count = max(1, c.Count/nodes)
		} else {
			c.Count, c.Period = divide(c.Count, c.Period, nodes, maxPeriod, 0)
		}
		config = c
	case weir.SlidingWindow:
		most, segments := maxPeriod, time.Duration(c.Segments)
		if c.Weighted {
			most -= most / (segments + 1) // a weighted window counts one segment more
		}
		c.Count, c.Period = divide(c.Count, c.Period, nodes, most, segments)
		config = c
	case weir.SlidingLog:
		c.Count, c.Period = divide(c.Count, c.Period, nodes, maxPeriod, 0)
		config = c
	case weir.TenantBucket:
		c.Count, c.Period = divideRate(c.Count, c.Period, nodes)
		c.Tenants = slices.Clone(c.Tenants)
		bursts := int64(0)
		for i := range c.Tenants {
			t := &c.Tenants[i]
			t.Burst = max(1, t.Burst/nodes)
			bursts += t.Burst
		}
		if c.Weighted {
			bursts *= 2 // and credits
		}
		c.Burst = max(c.Burst/nodes, bursts)
		config = c
	case weir.Concurrency:
		c.Count = max(1, c.Count/nodes)
		config = c
	}
	if s, err := weir.NewLimit(config); err == nil {
		return s
	}
	return nearest(config)
}

// divideRate divides a rate exactly, if there is such a rate.
func divideRate(count int64, period time.Duration, nodes int64) (int64, time.Duration) {
	g := nodes
	for rest := count; rest != 0; {
		g, rest = rest, g%rest
	}
	if exact, ok := longer(period, nodes/g, 1); ok {
		return count / g, exact
	}
	return divide(count, period, nodes, maxPeriod, 0)
}

// divide divides a count, or makes it 1 in a longer period: at most most, and a
// multiple of the segments in µs.
func divide(count int64, period time.Duration, nodes int64, most, segments time.Duration) (int64, time.Duration) {
	if count >= nodes {
		return count / nodes, period
	}
	period, ok := longer(period, nodes, count)
	if !ok || period > most {
		period = most
	}
	if part := segments * time.Microsecond; part > 0 {
		period += (part - period%part) % part
		if period > most {
			period -= part
		}
	}
	return 1, period
}

// longer returns d·n/m, rounded up to whole µs, unless that is above maxPeriod.
func longer(d time.Duration, n, m int64) (time.Duration, bool) {
	hi, lo := bits.Mul64(uint64(d/time.Microsecond), uint64(n))
	lo, carry := bits.Add64(lo, uint64(m-1), 0)
	if hi += carry; hi >= uint64(m) {
		return 0, false
	}
	us, _ := bits.Div64(hi, lo, uint64(m))
	if us > algo.MaxSpan {
		return 0, false
	}
	return time.Duration(us) * time.Microsecond, true
}

const maxPeriod = algo.MaxSpan * time.Microsecond

// nearest returns a limit like c, which is none because its rate is too low for its
// options. Each step drops more of them; the last one yields a limit.
func nearest(c weir.LimitConfig) weir.Limit {
	var steps []weir.LimitConfig
	switch c := c.(type) {
	case weir.TokenBucket:
		c.Burst = 1
		if c.Initial != nil {
			*c.Initial = min(*c.Initial, 1)
		}
		steps = append(steps, c)
		c.Warmup = 0
		steps = append(steps, c)
	case weir.LeakyBucket:
		c.Nginx = false
		steps = append(steps, c)
		c.Burst, c.QueueFree = 0, 0
		steps = append(steps, c)
	}
	for _, step := range steps {
		if s, err := weir.NewLimit(step); err == nil {
			return s
		}
	}
	return weir.MustLimit("1/876600h")
}

// shares caches the shares of limits. Clients may choose limits, so the cache is bounded.
type shares struct {
	nodes int64
	known atomic.Pointer[map[uint64]sharing]
	mu    sync.Mutex // held to change known
}

// A sharing has a limit and its share.
type sharing struct{ limit, share weir.Limit }

// maxShares is the size of the cache. The shares of further limits are computed each time.
const maxShares = 1024

func (s *shares) of(l weir.Limit) weir.Limit {
	if s.nodes == 1 {
		return l
	}
	id := l.Spec().ID
	known := s.known.Load()
	if known != nil {
		if k, ok := (*known)[id]; ok && (k.limit == l || k.limit.Equal(l)) {
			return k.share
		}
	}
	made := share(l, s.nodes)
	if l.Spec().Named {
		made = made.Named(l.Name())
	}
	if known != nil && len(*known) >= maxShares {
		return made
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[uint64]sharing{}
	if known = s.known.Load(); known != nil {
		if _, ok := (*known)[id]; ok || len(*known) >= maxShares {
			return made // added concurrently, or another limit has the same fingerprint
		}
		next = maps.Clone(*known)
	}
	next[id] = sharing{l, made}
	s.known.Store(&next)
	return made
}
