package failover

import (
	"fmt"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// MaxNodes is the largest number of nodes among which a limit is divided.
const MaxNodes = 1 << 20

// Share is the part of a limit that one of so many nodes gives while it cannot ask the
// others. An error wraps weir.ErrInvalid.
//
//   - A bucket keeps the exact rate: the count per so many times the period. Its
//     capacity is that of the limit divided by nodes, rounded down, but at least one
//     token; and so are what it holds back of a queue and what it starts with.
//   - What comes in windows or at intervals, and what a sliding_log counts, is the
//     count divided by nodes, rounded down, in the same period. If that is less than
//     one, it is one in a period that is longer by as much. A window of the calendar
//     keeps its length and has at least one.
//   - Slots of concurrency are divided and rounded down, but at least one.
//
// Each share keeps the bound of its algorithm. So together they give at most what the
// limit gives, if its count and its capacity are at least nodes; below that every node
// still has its one token, and up to nodes come at once where the limit gives fewer,
// though not more in the long run, but for a calendar. The share of one node is the
// limit itself.
//
// A period is at most 100 years; a rate that would need a longer one is divided as in
// a window, and a leaky_bucket that is too slow for nginx computes exactly.
func Share(l weir.Limit, nodes int) (weir.Limit, error) {
	switch {
	case l.IsZero():
		return weir.Limit{}, fmt.Errorf("failover: limit: %w: want a limit, got the zero Limit", weir.ErrInvalid)
	case nodes < 1 || nodes > MaxNodes:
		return weir.Limit{}, fmt.Errorf("failover: nodes: %w: want 1 to %d, got %d", weir.ErrInvalid, MaxNodes, nodes)
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

// longer is d·n/m, rounded up to whole µs, unless it is above maxPeriod.
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

// shares are the shares of limits. Limits come from policies, which are few, and from
// questions, where an outsider may choose them: what is remembered is bounded.
type shares struct {
	nodes int64
	known atomic.Pointer[map[uint64]sharing]
	mu    sync.Mutex // of whom changes known
}

// A sharing is a limit and its share.
type sharing struct{ limit, share weir.Limit }

// maxShares is how many shares are remembered. Those of other limits are computed each
// time.
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
	if known != nil && len(*known) >= maxShares {
		return made
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[uint64]sharing{}
	if known = s.known.Load(); known != nil {
		if _, ok := (*known)[id]; ok || len(*known) >= maxShares {
			return made // somebody was faster, or has a limit of the same fingerprint
		}
		next = maps.Clone(*known)
	}
	next[id] = sharing{l, made}
	s.known.Store(&next)
	return made
}
