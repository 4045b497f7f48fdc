package traffic

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

const (
	maxPolicies = 1000 // with counters of their own
	maxShards   = 16
)

// A Config configures New. Its zero value works.
type Config struct {
	// Now returns the time; time.Now if nil.
	Now func() time.Time

	// Seed selects the keys of samples. Nodes whose samples are merged need the same seed. It
	// is secret: a client that knows it can choose keys that distort the samples. Random if
	// zero.
	Seed uint64
}

// A Recorder records the traffic of this node.
type Recorder struct {
	now     func() time.Time
	seed    atomic.Uint64
	history *History

	shards     []shard
	free       sync.Pool // of *shard: that of the processor, usually
	nextShard  atomic.Uint32
	entries    sync.Map // *policy.Policy or *Source to *entry
	generation atomic.Uint32
	thin       atomic.Uint32 // the sketches get one in 2^thin requests
	wake       chan struct{} // a buffer is half full

	offered   uint64    // requests of policies with keys since collected; of the collector
	collected time.Time // the last collect; of the collector
	calm      int       // intervals that need a smaller thin; of the collector

	mu        sync.Mutex
	counters  map[string]*counter // by policy
	views     map[string]int64    // policies that View named, until a second
	rest      *counter            // of policies above maxPolicies
	known     int                 // entries
	second    int64               // which the next collect completes, in s since the epoch
	latency   [latencyBuckets]uint64
	lastCheck int64
}

// A shard has what one processor writes, so that processors do not share cache lines.
type shard struct {
	index int
	busy  atomic.Bool // guards the fields below

	generation uint32
	policy     *policy.Policy // of the last event
	entry      *entry
	buffer     []record
	random     uint64 // xorshift

	spare   []record // of the collector
	latency [latencyBuckets]atomic.Uint64
	_       [64]byte
}

// An entry assigns a policy of one generation to its counters.
type entry struct {
	counter   *counter
	candidate bool
}

// A counter counts the decisions of one policy, by its name.
type counter struct {
	name   string
	shards []tally
	last   [columns]uint64 // at the last collect
	active int64           // the last second with a decision
	keys   atomic.Pointer[keystats.Collector]

	rate      float64 // requests/s, smoothed
	busyUntil int64   // a second until which it has keys although nothing views it
}

// A tally has the counts of one shard.
type tally struct {
	n [columns]atomic.Uint64
	_ [64 - 8*columns%64]byte
}

// New returns a recorder. Run collects what it observes.
func New(c Config) *Recorder {
	r := &Recorder{now: c.Now, history: NewHistory(), counters: map[string]*counter{}, views: map[string]int64{}, wake: make(chan struct{}, 1)}
	if r.now == nil {
		r.now = time.Now
	}
	if r.seed.Store(c.Seed); c.Seed == 0 {
		r.seed.Store(rand.Uint64() | 1)
	}
	r.shards = make([]shard, min(runtime.GOMAXPROCS(0), maxShards))
	for i := range r.shards {
		s := &r.shards[i]
		s.index, s.random = i, rand.Uint64()|1
		s.buffer, s.spare = make([]record, 0, bufferSize), make([]record, 0, bufferSize)
	}
	r.rest = r.newCounter("")
	r.free.New = func() any { return &r.shards[int(r.nextShard.Add(1))%len(r.shards)] }
	r.collected = r.now()
	r.second = r.collected.Unix()
	return r
}

func (r *Recorder) newCounter(name string) *counter {
	return &counter{name: name, shards: make([]tally, len(r.shards))}
}

// Observe records the decision of one policy. It allocates nothing for a known policy and
// waits for no lock. Events that are AtEnd count nothing.
func (r *Recorder) Observe(e enforce.Event) {
	if e.Policy == nil || e.Outcome.AtEnd() {
		return
	}
	s := r.free.Get().(*shard)
	owned := s.busy.CompareAndSwap(false, true)
	var known *entry
	if generation := r.generation.Load(); owned && s.policy == e.Policy && s.generation == generation {
		known = s.entry
	} else {
		known = r.entry(e.Policy, e.Policy.Name())
		if owned {
			s.policy, s.entry, s.generation = e.Policy, known, generation
		}
	}
	known.counter.count(&e, s.index, known.candidate)
	if e.Took > 0 {
		s.latency[latencyBucket(e.Took)].Add(1)
	}
	wake := false
	if k := known.counter.keys.Load(); k != nil && !known.candidate {
		wake = r.record(s, owned, k, &e)
	}
	if owned {
		s.busy.Store(false)
	}
	r.free.Put(s)
	if wake {
		select {
		case r.wake <- struct{}{}:
		default: // the collector is awake
		}
	}
}

// count adds an event to the counts of one shard.
func (c *counter) count(e *enforce.Event, shard int, candidate bool) {
	t := &c.shards[shard]
	if candidate {
		if e.Outcome == enforce.Denied {
			t.n[Candidate].Add(1)
		}
		return
	}
	switch e.Outcome {
	case enforce.Admitted, enforce.FailedOpen:
		t.n[Admitted].Add(1)
		if e.Decision.Delay > 0 {
			t.n[Delayed].Add(1)
		}
	case enforce.Denied:
		if e.Shadow {
			t.n[Shadow].Add(1)
		} else {
			t.n[Denied].Add(1)
		}
	case enforce.Overloaded:
		t.n[Overloaded].Add(1)
	case enforce.FailedClosed:
		if !errors.Is(e.Err, context.Canceled) {
			t.n[Overloaded].Add(1)
		}
	}
}

// entry returns the counters of a policy or a Source and its name.
func (r *Recorder) entry(source any, name string) *entry {
	if known, ok := r.entries.Load(source); ok {
		return known.(*entry)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.entries.Load(source); ok {
		return known.(*entry)
	}
	if r.known++; r.known > 4*maxPolicies { // reloads left the entries of former policies
		r.known = 1
		r.entries.Clear()
	}
	// The candidate of a policy has its name and this suffix, which no other policy can have.
	name, candidate := strings.CutSuffix(name, "~candidate")
	c := r.counters[name]
	switch {
	case c == nil && len(r.counters) < maxPolicies:
		c = r.newCounter(name)
		c.active = r.second
		r.counters[name] = c
	case c == nil:
		c = r.rest
	}
	known := &entry{c, candidate}
	r.entries.Store(source, known)
	return known
}

// collect adds the counts since the last call to the history. now completes the seconds
// before it.
func (r *Recorder) collect(now time.Time) {
	r.drain()
	r.setThin(now.Sub(r.collected))
	r.collected = now
	r.mu.Lock()
	defer r.mu.Unlock()
	second := now.Unix()
	if second == r.second {
		return
	}
	back, last := second < r.second, second-1
	if back { // the clock went back
		last = second
	}
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(last, back)
	var all Counts
	for _, c := range r.counters {
		r.flush(c, last, second, &all)
	}
	r.flush(r.rest, last, second, &all)
	h.add("", last, all[:])
	h.latency.add(last, r.flushLatency())
	r.second = second
	r.track()
	if len(r.counters) == maxPolicies && second-r.lastCheck >= 60 {
		r.lastCheck = second
		r.forget(second - coarseStep*coarseSlots)
	}
}

// flush adds the counts of c since the last flush to a second of the history. next is the second
// after it. It requires r.mu.
func (r *Recorder) flush(c *counter, second, next int64, all *Counts) {
	var counts Counts
	any := false
	for column := range counts {
		n := uint64(0)
		for i := range c.shards {
			n += c.shards[i].n[column].Load()
		}
		counts[column] = uint32(n - c.last[column])
		all[column] += counts[column]
		any = any || counts[column] > 0
		c.last[column] = n
	}
	if any && c != r.rest {
		c.active = second
		r.history.add(c.name, second, counts[:])
	}
	requests := counts.Requests() - uint64(counts[Overloaded])
	c.rate += 0.1 * (float64(requests) - c.rate)
	if c.rate < 0.01 {
		c.rate = 0
	}
	if k := c.keys.Load(); k != nil {
		k.EndSecond(next, requests, uint64(counts[Denied])+uint64(counts[Shadow]))
	}
}

// flushLatency returns the decision times since the last call. It requires r.mu.
func (r *Recorder) flushLatency() []uint32 {
	buckets := make([]uint32, latencyBuckets)
	for b := range buckets {
		n := uint64(0)
		for i := range r.shards {
			n += r.shards[i].latency[b].Load()
		}
		buckets[b] = uint32(n - r.latency[b])
		r.latency[b] = n
	}
	return buckets
}

// forget removes the counters of policies without a decision since a second, so that others
// get some. It requires r.mu.
func (r *Recorder) forget(since int64) {
	removed := false
	for name, c := range r.counters {
		if c.active < since {
			delete(r.counters, name)
			removed = true
		}
	}
	if removed || r.known > maxPolicies {
		r.entries.Clear()
		r.known = 0
		r.generation.Add(1)
	}
}

// History returns the counters of this node.
func (r *Recorder) History() *History { return r.history }

// Snapshot returns the counters of the last complete seconds of this node, encoded in at most
// MaxSnapshot bytes. The counters of policies that do not fit are in the sum of all.
func (r *Recorder) Snapshot() []byte { return r.history.snapshot().encode() }
