package keystats

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

const (
	periods      = 5 // of periodSeconds
	window       = periods * periodSeconds
	watchedKeys  = 64
	watchSeconds = 10 // between choices of the watched keys
)

// A Collector collects the keys of one policy on one node. It is safe for concurrent use.
type Collector struct {
	theta atomic.Uint64 // of the current period: keys with smaller hashes are never thinned
	lost  atomic.Uint64 // records that found no room

	mu      sync.Mutex
	seed    uint64
	bucket  string // of the keys
	second  int64  // the current second
	periods [periods]*period
	watched watched // those with the most requests
	refused watched // those with the most denials
}

// A period has the keys of periodSeconds seconds. Periods of all nodes have the same bounds.
type period struct {
	number      int64 // seconds since the epoch / periodSeconds
	from        int64 // the first second that it covers
	requests    sketch
	denials     sketch
	sample      keySample
	total       [2]uint64 // exact requests and denials
	lost        uint64
	cost        uint64 // sum over records
	records     uint64
	thinned     uint32 // the largest weight of a record
	lostAtStart uint64
}

// A Record is one request.
type Record struct {
	Key    string // such as policy.Charge.Key
	Hash   uint64 // of Hash
	Weight uint32 // the number of requests that it stands for in the sketches; 0 if it is only for the sample
	Cost   uint32
	Denied bool
}

// MaxThin is the largest binary logarithm of a Weight.
const MaxThin = 16

// Hash returns the hash of a key that decides whether samples have the key. Nodes whose samples
// are merged use the same seed, which clients do not know.
func Hash(seed uint64, key string) uint64 { return mix(xxhash.Sum64String(key) ^ seed) }

// mix is a bijection whose every output bit depends on every input bit (MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// fingerprint identifies a seed without revealing it.
func fingerprint(seed uint64) uint32 { return uint32(mix(mix(seed) + 1)) }

// NewCollector returns a collector of requests from a second on, in s since the epoch. Records
// have hashes of the seed.
func NewCollector(seed uint64, second int64) *Collector {
	c := &Collector{seed: seed}
	c.begin(second)
	return c
}

// Keeps reports whether the sample can have a key with a hash. A caller that thins out records
// passes those with the Weight 0.
func (c *Collector) Keeps(hash uint64) bool { return hash < c.theta.Load() }

// Lose counts a request that was not recorded.
func (c *Collector) Lose() { c.lost.Add(1) }

// Add adds a request to the current second.
func (c *Collector) Add(r *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(r)
}

// EndSecond ends the current second. requests and denials are its exact numbers, and next is the
// second that begins: an earlier one if the clock went back.
func (c *Collector) EndSecond(next int64, requests, denials uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(requests, denials)
	c.begin(next)
}

// begin makes second the current one. If the clock went back, it begins anew.
func (c *Collector) begin(second int64) {
	if second < c.second {
		for _, p := range c.periods {
			if p != nil {
				p.number = -1
			}
		}
		c.watched.reset()
		c.refused.reset()
	}
	c.second = second
	c.watched.advance(second)
	c.refused.advance(second)
	number := second / periodSeconds
	slot := &c.periods[number%periods]
	switch {
	case *slot != nil && (*slot).number == number:
		return
	case *slot == nil:
		*slot = &period{}
	}
	(*slot).reset(number, second, c.lost.Load())
	c.theta.Store(math.MaxUint64)
}

func (p *period) reset(number, from int64, lost uint64) {
	p.number, p.from = number, from
	p.requests.reset()
	p.denials.reset()
	p.sample.reset()
	p.total, p.lost, p.cost, p.records, p.thinned, p.lostAtStart = [2]uint64{}, 0, 0, 0, 1, lost
}

// current returns the period of the current second.
func (c *Collector) current() *period { return c.periods[c.second/periodSeconds%periods] }

// add applies a record. It requires c.mu.
func (c *Collector) add(r *Record) {
	p := c.current()
	if c.bucket == "" {
		c.bucket, _, _ = strings.Cut(r.Key, "|")
	}
	p.records++
	p.cost += uint64(r.Cost)
	p.sample.add(r.Hash, int(c.second%periodSeconds), r.Denied)
	if r.Weight == 0 {
		return
	}
	p.thinned = max(p.thinned, r.Weight)
	p.requests.add(r.Hash, r.Key, r.Weight)
	if r.Denied {
		p.denials.add(r.Hash, r.Key, r.Weight)
	}
	c.watched.add(r)
	c.refused.add(r)
}

// count adds exact counts of the current second, at its end. It requires c.mu.
func (c *Collector) count(requests, denials uint64) {
	p := c.current()
	p.total[0] += requests
	p.total[1] += denials
	p.lost = c.lost.Load() - p.lostAtStart
	c.theta.Store(p.sample.theta)
	if c.second%watchSeconds == 0 {
		var requests, denials []summary
		for _, one := range c.periods {
			if one != nil && (one.number == p.number || one.number == p.number-1) {
				requests, denials = append(requests, one.requests.summary()), append(denials, one.denials.summary())
			}
		}
		c.watched.choose(requests)
		c.refused.choose(denials)
	}
}

// A watched has the requests by second, and the denials by step, of the first keys of a sketch. The
// series of a key begins when it is chosen.
type watched struct {
	n       int
	hashes  [sketchKeys]uint64 // of which watchedKeys are in use; the length is that of an index
	index   index
	seconds [watchedKeys][window]uint32
	denied  [watchedKeys][window / StepSeconds]uint32
	second  int64
}

func (w *watched) reset() {
	w.n, w.second = 0, 0
	clear(w.index.slots[:])
}

// advance clears the cells of the seconds and steps up to the current one.
func (w *watched) advance(second int64) {
	for s := max(w.second+1, second-window+1); s <= second; s++ {
		for i := range w.seconds {
			w.seconds[i][s%window] = 0
			if s%StepSeconds == 0 {
				w.denied[i][s%window/StepSeconds] = 0
			}
		}
	}
	w.second = second
}

func (w *watched) add(r *Record) {
	slot, ok := w.index.find(&w.hashes, r.Hash)
	if !ok {
		return
	}
	n := &w.seconds[slot][w.second%window]
	*n = saturate(*n, r.Weight)
	if r.Denied {
		n = &w.denied[slot][w.second%window/StepSeconds]
		*n = saturate(*n, r.Weight)
	}
}

// choose selects the keys with the largest counts of the last periods.
func (w *watched) choose(last []summary) {
	top := mergeSummaries(last, watchedKeys)
	wanted := map[uint64]bool{}
	for i := range top.keys {
		wanted[top.keys[i].hash] = true
	}
	var unused []uint16
	for slot := range w.n {
		if hash := w.hashes[slot]; wanted[hash] {
			delete(wanted, hash)
		} else {
			unused = append(unused, uint16(slot))
		}
	}
	for i := range top.keys {
		hash := top.keys[i].hash
		if !wanted[hash] {
			continue
		}
		var slot uint16
		if w.n < watchedKeys {
			slot = uint16(w.n)
			w.n++
		} else {
			slot = unused[len(unused)-1]
			unused = unused[:len(unused)-1]
			w.index.remove(&w.hashes, slot)
		}
		w.hashes[slot] = hash
		clear(w.seconds[slot][:])
		clear(w.denied[slot][:])
		w.index.insert(&w.hashes, slot)
	}
}

// series returns the requests and denials of the watched keys from a second on.
func (w *watched) series(from int64) []keySeries {
	all := make([]keySeries, w.n)
	for slot := range all {
		all[slot].hash = w.hashes[slot]
		for s := max(from, w.second-window+1); s <= w.second; s++ {
			if n := w.seconds[slot][s%window]; n > 0 {
				all[slot].ticks = append(all[slot].ticks, tick{s, uint64(n)})
			}
		}
		// The step of the oldest second has the cell of the current step, if it began before.
		for step := max(from/StepSeconds, w.second/StepSeconds-window/StepSeconds+1); step <= w.second/StepSeconds; step++ {
			if n := w.denied[slot][step%(window/StepSeconds)]; n > 0 {
				all[slot].denials = append(all[slot].denials, tick{step, uint64(n)})
			}
		}
	}
	return all
}

// Sample returns the keys of the last minutes.
func (c *Collector) Sample() *Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Sample{seed: fingerprint(c.seed), bucket: c.bucket, theta: math.MaxUint64, from: math.MaxInt64, until: c.second, thinned: 1}
	var requests, denials []summary
	var sampled [][]keySeries
	oldest := c.second/periodSeconds - periods + 1
	for number := oldest; number < oldest+periods; number++ {
		p := c.periods[(number%periods+periods)%periods]
		if p == nil || p.number != number {
			continue
		}
		s.from = min(s.from, p.from)
		s.requests += p.total[0]
		s.denials += p.total[1]
		s.lost += p.lost
		s.cost += p.cost
		s.records += p.records
		s.thinned = max(s.thinned, uint64(p.thinned))
		s.theta = min(s.theta, p.sample.theta)
		requests, denials = append(requests, p.requests.summary()), append(denials, p.denials.summary())
		sampled = append(sampled, p.sample.series(p.number*periodSeconds))
	}
	s.top, s.denied = mergeSummaries(requests, sketchKeys).clone(), mergeSummaries(denials, sketchKeys).clone()
	s.sampled = mergeSeries(s.theta, sampled...)
	s.watched, s.watchedDenied = c.watched.series(s.from), c.refused.series(s.from)
	return s
}

// clone returns a copy that shares no text with a sketch.
func (s summary) clone() summary {
	for i := range s.keys {
		text := *s.keys[i].text
		s.keys[i].text = &text
	}
	return s
}
