package regions

import (
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// Part returns the limit that is a part of l, from 1 to 100 percent. Parts of at most 100 percent
// together admit no more than l, also if their clocks differ by a thousandth:
//
//   - A bucket has the exact part of the rate, divided by 1.001. Its capacity is rounded down.
//   - A window has a part of the count, rounded down.
//   - A sliding_log has that too, and a period that is longer by a thousandth.
//   - Slots of concurrency are divided and rounded down.
//
// The part of 100 percent is l itself. A part keeps the name of l. An error wraps weir.ErrInvalid: l
// cannot be divided, or its part is less than one.
func Part(l weir.Limit, percent int) (weir.Limit, error) {
	switch {
	case l.IsZero():
		return l, fmt.Errorf("regions: limit: %w: got the zero Limit, want a limit", weir.ErrInvalid)
	case percent < 1 || percent > 100:
		return weir.Limit{}, fmt.Errorf("regions: part: %w: got %d, want 1 to 100 percent", weir.ErrInvalid, percent)
	case percent == 100:
		return l, nil
	}
	refuse := func(reason string) (weir.Limit, error) {
		return weir.Limit{}, fmt.Errorf("regions: limit %q: %w: %s", l.Brief(), weir.ErrInvalid, reason)
	}
	if reason := parts.Undivided(l); reason != "" {
		return refuse("cannot be divided among regions: " + reason)
	}
	for _, exact := range []bool{true, false} {
		c, count := partOf(l, int64(percent), exact)
		if count < 1 {
			break
		}
		if p, err := weir.NewLimit(c); err == nil {
			if name := l.Name(); name != "" {
				p = p.Named(name)
			}
			return p, nil
		}
	}
	return refuse(fmt.Sprintf("%d%% of it is less than one", percent))
}

// partOf returns the description of a part, and the least of its count and its capacity. If exact is
// not set, the rate of a bucket is rounded down.
func partOf(l weir.Limit, percent int64, exact bool) (weir.LimitConfig, int64) {
	of := func(n int64) int64 { return n/100*percent + n%100*percent/100 }
	switch c := l.Config().(type) {
	case weir.TokenBucket:
		c.Burst = of(c.Burst)
		c.Count, c.Period = slower(c.Count, c.Period, percent, exact)
		return c, min(c.Count, c.Burst)
	case weir.LeakyBucket:
		capacity := of(c.Burst + 1)
		c.Burst = capacity - 1
		c.Count, c.Period = slower(c.Count, c.Period, percent, exact)
		return c, min(c.Count, capacity)
	case weir.FixedWindow:
		c.Count = of(c.Count)
		return c, c.Count
	case weir.SlidingWindow:
		c.Count = of(c.Count)
		return c, c.Count
	case weir.SlidingLog:
		us := int64(c.Period / time.Microsecond)
		c.Count, c.Period = of(c.Count), time.Duration(min(algo.MaxSpan, us+(us+999)/1000))*time.Microsecond
		return c, c.Count
	case weir.Concurrency:
		c.Count = of(c.Count)
		return c, c.Count
	}
	return nil, 0
}

// slower returns the part of a rate, divided by 1.001.
func slower(count int64, period time.Duration, percent int64, exact bool) (int64, time.Duration) {
	n, us := count*percent*10, int64(period/time.Microsecond)
	if !exact || n%1001 == 0 {
		return n / 1001, period
	}
	g := us * 1001
	for rest := n; rest != 0; {
		g, rest = rest, g%rest
	}
	if us = us * 1001 / g; us > algo.MaxSpan {
		return n / 1001, period
	}
	return n / g, time.Duration(us) * time.Microsecond
}

// A division has the two limits by which a region decides under a limit. One that a region does not
// have is zero.
type division struct {
	own, rest weir.Limit
	err       error
}

// divide divides a limit. Either part may be 0.
func divide(l weir.Limit, own, rest int) (d division) {
	if own > 0 {
		if d.own, d.err = Part(l, own); d.err != nil {
			return d
		}
	}
	if rest == 0 {
		return d
	}
	var err error
	switch d.rest, err = Part(l, rest); {
	case own == 0 && err == nil && l.IsConcurrency():
		d.err = fmt.Errorf("regions: limit %q: %w: slots are of the part of a region, which has none", l.Brief(), weir.ErrInvalid)
	case own == 0:
		d.err = err
	case err != nil || l.IsConcurrency():
		d.rest = weir.Limit{}
	}
	return d
}

// maxDivisions is the number of limits from which the cache starts again. Clients may choose limits.
const maxDivisions = 4096

// divisions caches divisions by their limits.
type divisions struct {
	own, rest int
	mu        sync.RWMutex
	known     map[weir.Limit]division
}

func (c *divisions) of(l weir.Limit) division {
	c.mu.RLock()
	d, ok := c.known[l]
	c.mu.RUnlock()
	if ok {
		return d
	}
	d = divide(l, c.own, c.rest)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxDivisions {
		c.known = map[weir.Limit]division{}
	}
	c.known[l] = d
	return d
}
