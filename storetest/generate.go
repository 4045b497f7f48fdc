package storetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/storetest/internal/story"
)

// A generator makes random limits, requests and steps of time from a seed.
type generator struct {
	*rand.Rand
	keep    func(weir.LimitConfig) bool // which limits; nil for all
	divides bool                        // each scene has tenants
}

// pick is one of a list.
func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// about is a number from 1 to most, small more often than large.
func (g *generator) about(most int64) int64 {
	if most <= 1 {
		return 1
	}
	return min(most, 1+int64(math.Exp2(g.Float64()*math.Log2(float64(most)))))
}

var periods = []time.Duration{
	time.Microsecond, time.Millisecond, 100 * time.Millisecond, time.Second, time.Second, time.Second, 10 * time.Second,
	time.Minute, time.Minute, 90 * time.Second, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

var zones = func() (all []*time.Location) {
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Asia/Kathmandu", "Australia/Lord_Howe",
		"America/Santiago", "Africa/Cairo", "Pacific/Chatham", "Pacific/Apia", "Asia/Beirut", "America/Havana",
	} {
		if z, err := time.LoadLocation(name); err == nil {
			all = append(all, z)
		}
	}
	return all
}()

// limit is a limit of any algorithm, of an everyday or of an extreme rate.
func (g *generator) limit() weir.Limit {
	for {
		c := g.config()
		if g.keep != nil && !g.keep(c) {
			continue
		}
		l, err := weir.NewLimit(c)
		if err == nil {
			return l
		}
		if !errors.Is(err, weir.ErrInvalid) {
			panic(fmt.Sprintf("%+v: %v", c, err))
		}
	}
}

func (g *generator) config() weir.LimitConfig {
	count, period := g.about(pick[int64](g, 3, 10, 10, 100, 1000, 1e6, 1<<40)), pick(g, periods...)
	if g.IntN(4) == 0 { // a period that nothing divides
		period = time.Duration(g.about(pick[int64](g, 1e3, 1e6, 1e9, 1e12, 36525*24*3600*1e6))) * time.Microsecond
	}
	switch g.IntN(12) {
	case 4, 5:
		c := weir.LeakyBucket{Count: count, Period: period, Burst: g.about(pick[int64](g, 3, 20, 1000)) - 1}
		if c.Queue = g.IntN(2) == 0; c.Queue && g.IntN(2) == 0 {
			c.QueueFree = g.Int64N(c.Burst + 1)
		}
		c.Nginx = g.IntN(2) == 0
		return c
	case 6, 7:
		switch g.IntN(3) {
		case 0:
			return weir.FixedWindow{Count: count, Period: period, Epoch: true}
		case 1:
			unit, day := pick(g, "day", "week", "month", "year"), pick(g, 0, 0, 2, 15, 28, 29, 30, 31) // of other units than months: invalid
			return weir.FixedWindow{Count: count, Calendar: unit, Zone: pick(g, zones...), Day: day}
		}
		return weir.FixedWindow{Count: count, Period: period}
	case 8, 9:
		c := weir.SlidingWindow{Count: count, Segments: pick(g, 1, 2, 3, 10, 100), Weighted: g.IntN(2) == 0}
		c.Period = period - period%(time.Duration(c.Segments)*time.Microsecond)
		return c
	case 10:
		return weir.SlidingLog{Count: min(count, 10_000), Period: period}
	case 11:
		return weir.Concurrency{Count: min(count, 10_000), Lease: period}
	}
	return g.bucket(count, period)
}

func (g *generator) bucket(count int64, period time.Duration) weir.TokenBucket {
	c := weir.TokenBucket{Count: count, Period: period}
	if g.IntN(2) == 0 {
		c.Burst = g.about(pick[int64](g, 1, 10, 100, 10_000, 1<<40))
	}
	switch g.IntN(6) {
	case 0:
		c.Warmup = time.Duration(g.about(pick[int64](g, 1e3, 1e6, 1e8, 1e11))) * time.Microsecond
		return c
	case 1, 2:
		c.Interval = true
		c.Epoch = pick(g, false, true)
	}
	if g.IntN(4) == 0 {
		burst := c.Burst
		if burst == 0 {
			burst = c.Count
		}
		initial := g.Int64N(burst + 1)
		c.Initial = &initial
	}
	return c
}

// tenants are limits of tenants of a parent, and often of the parent after it has changed.
func (g *generator) tenants() (limits []weir.Limit) {
	for limits == nil {
		c := weir.TenantBucket{Count: g.about(pick[int64](g, 10, 1000, 1<<40)), Period: pick(g, periods...)}
		c.Burst, c.Weighted = g.about(pick[int64](g, 10, 100, 10_000, 1<<40)), g.IntN(2) == 0
		most := c.Burst
		if c.Weighted {
			most /= 2
		}
		for i := range 1 + g.IntN(5) {
			t := weir.Tenant{Name: fmt.Sprint("t", i), Weight: g.about(pick[int64](g, 1, 5, 1000)), Burst: g.about(max(1, most/pick[int64](g, 1, 2, 5)))}
			most -= t.Burst
			c.Tenants = append(c.Tenants, t)
		}
		all, err := c.Limits()
		if err != nil || g.keep != nil && !g.keep(c) {
			continue // too many units, or bursts
		}
		limits = append(limits, pick(g, all...), pick(g, all...))
		if g.IntN(2) == 0 {
			break
		}
		for i := range c.Tenants {
			c.Tenants[i].Weight, c.Tenants[i].Burst = g.about(10), g.about(c.Tenants[i].Burst)
		}
		c.Tenants[g.IntN(len(c.Tenants))].Name = "new"
		c.Weighted = c.Weighted && g.IntN(2) == 0
		if all, err := c.Limits(); err == nil {
			limits = append(limits, pick(g, all...))
		}
	}
	return limits
}

// A scene is some keys under some limits, and the decisions about them.
type scene struct {
	*generator
	limits  []weir.Limit
	former  []weir.Limit // limits without the tenants of several parents, which share a state
	keys    []string
	now     int64
	until   int64 // the clock goes no further
	slow    int64 // the longest period, µs
	wait    int64 // the last RetryAfter, µs
	reset   int64 // the last ResetAfter
	charged []int64
	back    bool // the clock may go back
}

// newScene sets a scene that begins at now. Keys of different scenes differ.
func (g *generator) newScene(n int, now int64) *scene {
	var limits []weir.Limit
	for range 1 + g.IntN(3) {
		limits = append(limits, g.limit())
	}
	if g.divides {
		return g.sceneOf(n, now, append(limits[1:], g.tenants()...))
	}
	if g.IntN(4) == 0 { // one state, whose limit changes
		slots := limits[0].IsConcurrency()
		limits = slices.DeleteFunc(limits, func(l weir.Limit) bool {
			// Redis does not know the former windows of a calendar, in which an expired
			// reservation may have been charged.
			return l.IsConcurrency() != slots || l.Period() == 0
		})
		if len(limits) == 0 {
			limits = []weir.Limit{weir.MustLimit("10/s"), weir.MustLimit("11/s")}
		}
		for i, l := range limits {
			limits[i] = l.Named("n")
			if c, ok := l.Config().(weir.TokenBucket); ok && g.IntN(2) == 0 { // the same limit, raised
				c.Count += g.about(c.Count)
				if more, err := weir.NewLimit(c); err == nil && (g.keep == nil || g.keep(c)) {
					limits = append(limits, more.Named("n"))
				}
			}
		}
	}
	return g.sceneOf(n, now, limits)
}

func (g *generator) sceneOf(n int, now int64, limits []weir.Limit) *scene {
	s := &scene{generator: g, limits: limits, former: limits, now: now}
	var first *algo.TenantBucket
	for _, l := range limits {
		s.slow = max(s.slow, l.Spec().Rule.Horizon())
		if b, ok := l.Spec().Rule.(*algo.TenantBucket); ok && first == nil {
			first = b
		} else if ok && !algo.SameState(first, b) {
			s.former = slices.DeleteFunc(slices.Clone(limits), func(l weir.Limit) bool {
				_, ok := l.Spec().Rule.(*algo.TenantBucket)
				return ok
			})
		}
	}
	for i := range 1 + g.IntN(2) {
		s.keys = append(s.keys, fmt.Sprintf("k%d.%d", n, i))
	}
	budget := int64(365 * 24 * time.Hour / time.Microsecond)
	if g.IntN(20) == 0 {
		budget *= 100
	}
	s.until = min(ceiling, now+budget)
	return s
}

// ceiling is the last instant that the clock of a differential run shows: what
// lasts MaxSpan from then on is still exact in doubles.
var ceiling = time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// pass lets some time pass, often to an instant at which an answer changes, or to
// just before it.
func (s *scene) pass() {
	step := int64(0)
	switch s.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
	case 6, 7:
		step = s.wait
	case 8:
		step = s.wait - 1
	case 9:
		step = s.wait + pick[int64](s.generator, 1, 999, 1000)
	case 10:
		step = s.reset
	case 11:
		step = s.reset - 1
	case 12:
		step = s.about(s.slow)
	case 13:
		step = s.about(1e6)
	case 14:
		step = 1
	case 15:
		step = s.slow + s.about(s.slow)
	}
	if s.back && s.IntN(10) == 0 {
		step = -s.about(s.slow)
	}
	if step < 0 && !s.back || step > s.until-s.now {
		step = 0
	}
	s.now = max(origin, s.now+step)
}

// next fills st in with the next step; st keeps its memory.
func (s *scene) next(st *story.Step) {
	s.pass()
	asks := st.Asks[:0]
	st.Now, st.Batch = s.now, s.IntN(10) == 0
	n := 1
	if st.Batch {
		n = s.IntN(5)
	}
	for range n {
		asks = append(asks, story.Ask{Request: s.request()})
	}
	st.Asks = asks
}

func (s *scene) request() weir.Request {
	g := s.generator
	l := pick(g, s.limits...)
	r := weir.Request{Key: pick(g, s.keys...), Limit: l, N: s.cost(l.Capacity())}
	switch v := s.IntN(100); {
	case v < 45:
	case v < 55:
		r.Verb = weir.TakeUpTo
	case v < 64:
		r.Verb = weir.Peek
	case v < 69:
		r.Verb = weir.Charge
	case v < 76:
		r.Verb = weir.Return
		if len(s.charged) > 0 && s.IntN(2) == 0 {
			r.At = time.UnixMicro(pick(g, s.charged...))
		}
		r.Borrowed = g.divides && s.IntN(2) == 0
	case v < 77:
		r.Verb = weir.Reset
	default:
		r.Verb = pick(g, weir.Reserve, weir.Reserve, weir.Commit, weir.Cancel)
		r.ID = pick(g, "a", "b", "c", "d")
		if r.Verb == weir.Reserve {
			r.N = max(1, r.N)
			r.TTL = min(bounds.MaxTTL, time.Duration(s.about(pick(g, 1, 1e6, 2*s.slow)))*time.Microsecond)
		}
	}
	if len(s.limits) > 1 && s.IntN(10) == 0 {
		r.From = s.former
		r.Carry = weir.Carry(s.IntN(int(weir.CarryReset) + 1))
	}
	return r
}

func (s *scene) cost(capacity int64) int64 {
	switch s.IntN(20) {
	case 0:
		return 0
	case 1, 2:
		return capacity
	case 3:
		return capacity + 1
	case 4:
		return capacity - s.Int64N(min(capacity, 3))
	case 5:
		if s.IntN(4) == 0 {
			return pick[int64](s.generator, capacity+1e6, 1<<40, 1<<40+1, 1<<53, 1<<62, math.MaxInt64)
		}
	case 6, 7, 8, 9:
		return s.about(capacity)
	}
	return 1
}

// observe records a decision for the next steps.
func (s *scene) observe(d weir.Decision) {
	switch {
	case d.RetryAfter > 0 && d.RetryAfter != weir.Never:
		s.wait = d.RetryAfter.Microseconds()
	case d.Delay > 0:
		s.wait = d.Delay.Microseconds()
	}
	if d.ResetAfter > 0 {
		s.reset = d.ResetAfter.Microseconds()
	}
	if d.Granted > 0 && len(s.charged) < 16 {
		s.charged = append(s.charged, d.At.UnixMicro())
	}
}
