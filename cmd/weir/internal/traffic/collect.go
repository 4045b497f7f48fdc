package traffic

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/enforce"
)

const (
	interval   = 100 * time.Millisecond // at which Run collects
	bufferSize = 4096                   // records of a shard
	sketchRate = 100_000                // records per second that the sketches of all policies apply
	maxKeyed   = 16                     // policies with keys
	busiest    = 4                      // policies that have keys without a view
	busyTime   = 120                    // s that such a policy keeps its keys
	viewTime   = 15 * 60                // s
	maxViews   = 64
)

// A record is a request for the keys of its policy.
type record struct {
	keys *keystats.Collector
	keystats.Record
}

// record appends a request to the buffer of its shard. It requires s.busy if owned is true, and
// otherwise counts the request as lost. wake reports that the collector should empty the buffer.
func (r *Recorder) record(s *shard, owned bool, k *keystats.Collector, e *enforce.Event) (wake bool) {
	if e.Outcome != enforce.Admitted && e.Outcome != enforce.Denied && e.Outcome != enforce.FailedOpen {
		return false
	}
	if !owned || len(s.buffer) == cap(s.buffer) {
		k.Lose()
		return false
	}
	hash, weight := keystats.Hash(r.seed.Load(), e.Key), uint32(1)
	if thin := r.thin.Load(); thin > 0 {
		weight = 1 << thin
		s.random ^= s.random << 13
		s.random ^= s.random >> 7
		s.random ^= s.random << 17
		if s.random>>32&uint64(weight-1) != 0 {
			if !k.Keeps(hash) {
				return false
			}
			weight = 0
		}
	}
	s.buffer = append(s.buffer, record{k, keystats.Record{
		Key: e.Key, Hash: hash, Weight: weight, Cost: uint32(min(max(e.Cost, 0), math.MaxUint32)), Denied: e.Outcome == enforce.Denied,
	}})
	return len(s.buffer) == bufferSize/2
}

// Run collects what Observe recorded, until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			r.drain()
		case <-timer.C:
			now := r.now()
			r.collect(now)
			timer.Reset(now.Truncate(interval).Add(interval).Sub(now)) // at the ends of seconds, too
		}
	}
}

// drain applies the records of all shards. Only the collector calls it.
func (r *Recorder) drain() {
	for i := range r.shards {
		s := &r.shards[i]
		if !s.acquire() {
			continue // its owner does not run; the next call empties it
		}
		full := s.buffer
		s.buffer, s.spare = s.spare, nil
		s.busy.Store(false)
		r.apply(full)
		clear(full) // of the texts of keys
		s.spare = full[:0]
	}
}

// acquire sets s.busy, unless another goroutine has it for long.
func (s *shard) acquire() bool {
	for range 100 {
		if s.busy.CompareAndSwap(false, true) {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// apply applies records in order.
func (r *Recorder) apply(records []record) {
	for i := range records {
		records[i].keys.Add(&records[i].Record)
		r.offered += uint64(records[i].Weight)
	}
}

// setThin selects the share of records for the sketches by those of the last interval.
func (r *Recorder) setThin(elapsed time.Duration) {
	rate := float64(r.offered) / max(elapsed, interval/2).Seconds()
	r.offered = 0
	thin := uint32(0)
	if rate > sketchRate {
		thin = uint32(bits.Len64(uint64(rate / sketchRate)))
	}
	if last := r.thin.Load(); thin < last { // slowly, so that a pause is followed by no burst
		thin = last
		if r.calm++; r.calm == 10 {
			r.calm, thin = 0, last-1
		}
	} else {
		r.calm = 0
	}
	r.thin.Store(min(thin, keystats.MaxThin))
}

// View keeps the keys of a policy for the next 15 minutes.
func (r *Recorder) View(policy string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.views[policy]; !ok && len(r.views) >= maxViews {
		oldest := policy
		for name, until := range r.views {
			if oldest == policy || until < r.views[oldest] {
				oldest = name
			}
		}
		delete(r.views, oldest)
	}
	r.views[policy] = r.second + viewTime
	if c := r.counters[policy]; c != nil && c.keys.Load() == nil {
		r.track()
	}
}

// track gives keys to the policies that View named and to the busiest. It requires r.mu.
func (r *Recorder) track() {
	var wanted, busy []*counter
	for name, until := range r.views {
		if until <= r.second {
			delete(r.views, name)
		}
	}
	for name, c := range r.counters {
		if c.rate > 0 {
			busy = append(busy, c)
		}
		if r.views[name] > 0 || c.busyUntil > r.second {
			wanted = append(wanted, c)
		}
	}
	slices.SortFunc(busy, func(a, b *counter) int { return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.name, b.name)) })
	for _, c := range busy[:min(busiest, len(busy))] {
		if r.views[c.name] == 0 && c.busyUntil <= r.second {
			wanted = append(wanted, c)
		}
		c.busyUntil = r.second + busyTime
	}
	// Those that were viewed last come first, then the others by rate.
	slices.SortFunc(wanted, func(a, b *counter) int {
		return cmp.Or(cmp.Compare(r.views[b.name], r.views[a.name]), cmp.Compare(b.rate, a.rate), cmp.Compare(a.name, b.name))
	})
	wanted = wanted[:min(maxKeyed, len(wanted))]
	for _, c := range r.counters {
		if !slices.Contains(wanted, c) {
			c.keys.Store(nil)
		}
	}
	for _, c := range wanted {
		if c.keys.Load() == nil {
			c.keys.Store(keystats.NewCollector(r.seed.Load(), r.second))
		}
	}
}

// Seed returns the seed in use.
func (r *Recorder) Seed() uint64 { return r.seed.Load() }

// SetSeed replaces the seed, so that the samples of this node can be merged with those of others. The
// keys that were recorded with another one are forgotten.
func (r *Recorder) SetSeed(seed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seed.Swap(seed) == seed {
		return
	}
	for _, c := range r.counters {
		c.keys.Store(nil)
	}
	r.track()
}

// Sample returns the keys of a policy on this node, or nil if it has none: if View did not name it
// recently and it is not among the busiest.
func (r *Recorder) Sample(policy string) *keystats.Sample {
	r.mu.Lock()
	c := r.counters[policy]
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	if k := c.keys.Load(); k != nil {
		return k.Sample()
	}
	return nil
}
