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

// share is Share of a limit among two nodes or more.
func share(l weir.Limit, nodes int64) weir.Limit {
	c := l.Config()
	switch c.Algorithm {
	case weir.TokenBucket:
		shareBucket(&c, nodes)
	case weir.LeakyBucket:
		c.Burst = max(1, (c.Burst+1)/nodes) - 1
		c.QueueFree = min(c.QueueFree/nodes, c.Burst)
		thin(&c, nodes)
	case weir.Concurrency:
		c.Count = max(1, c.Count/nodes)
	default:
		shareWindow(&c, nodes)
	}
	if s, err := weir.NewLimit(c); err == nil {
		return s
	}
	return nearest(c)
}

// shareBucket makes c the share of a token bucket. Tokens that come together at the
// end of an interval are divided, and the interval keeps its length and its anchor.
func shareBucket(c *weir.LimitConfig, nodes int64) {
	c.Burst = max(1, c.Burst/nodes)
	if c.Initial != nil {
		initial := *c.Initial / nodes
		c.Initial = &initial
	}
	if c.Interval {
		shareWindow(c, nodes)
		return
	}
	thin(c, nodes)
}

// thin divides a rate exactly, if there is such a rate.
func thin(c *weir.LimitConfig, nodes int64) {
	g := nodes
	for rest := c.Count; rest != 0; {
		g, rest = rest, g%rest
	}
	period, ok := longer(c.Period, nodes/g, 1)
	if !ok {
		shareWindow(c, nodes)
		return
	}
	c.Count, c.Period = c.Count/g, period
}

// shareWindow divides a count, or makes it 1 in a longer period.
func shareWindow(c *weir.LimitConfig, nodes int64) {
	if c.Count >= nodes || c.Calendar != "" {
		c.Count = max(1, c.Count/nodes)
		return
	}
	period, ok := longer(c.Period, nodes, c.Count)
	most, segments := maxPeriod, time.Duration(c.Segments)
	if c.Weighted {
		most -= most / (segments + 1) // which counts a segment more
	}
	if !ok || period > most {
		period = most
	}
	if part := segments * time.Microsecond; part > 0 {
		period += (part - period%part) % part
		if period > most {
			period -= part
		}
	}
	c.Count, c.Period = 1, period
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

// nearest is a limit like c where c itself is none, as its rate is too low for what
// refines it. Each step gives up more; after the last it is a limit.
func nearest(c weir.LimitConfig) weir.Limit {
	one := int64(1)
	if c.Algorithm == weir.LeakyBucket {
		one = 0
	}
	for _, give := range []func(){
		func() { c.Nginx = false },
		func() {
			c.Burst, c.QueueFree = one, 0
			if c.Initial != nil {
				*c.Initial = min(*c.Initial, one)
			}
		},
		func() { c.Warmup = 0 },
	} {
		give()
		if s, err := weir.NewLimit(c); err == nil {
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
	id := l.Fingerprint()
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
