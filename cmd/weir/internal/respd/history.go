package respd

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/floodweir/weir"
)

// redis-cell keeps one state per key, whatever the parameters; Weir keeps one per key and
// limit. A client that changes the parameters must not find a full bucket. So the server
// remembers the last limit of a key and names it to the store, which carries the state
// over.

// The history covers sets·ways keys.
const (
	sets = 1 << 14
	ways = 4
	// maxPrevious is the maximum number of previous limits of a key.
	maxPrevious = 4
)

// limitHistory remembers the last limit of keys. If a key is evicted, its next change of
// parameters begins with a full bucket.
type limitHistory struct {
	seed       maphash.Seed
	nextVictim atomic.Uint32
	sets       [sets][ways]atomic.Pointer[keyHistory]
}

// A keyHistory holds the limits of one key. It is immutable.
type keyHistory struct {
	key      uint64
	limit    weir.Limit
	previous []weir.Limit // earlier limits whose state is not carried over yet, newest first
}

func newLimitHistory() *limitHistory { return &limitHistory{seed: maphash.MakeSeed()} }

func (m *limitHistory) hash(key string) uint64 { return maphash.String(m.seed, key) }

// find returns the slot and the history of a key, or nil.
func (m *limitHistory) find(key uint64) (*atomic.Pointer[keyHistory], *keyHistory) {
	set := &m.sets[key%sets]
	for i := range set {
		if e := set[i].Load(); e != nil && e.key == key {
			return &set[i], e
		}
	}
	return nil, nil
}

// previous records that key is used under limit. It returns the limits from which its
// state may have to be carried over.
func (m *limitHistory) previous(key uint64, limit weir.Limit) []weir.Limit {
	at, e := m.find(key)
	switch {
	case e == nil:
		m.add(&keyHistory{key: key, limit: limit})
		return nil
	case e.limit == limit || e.limit.Equal(limit):
		return e.previous
	}
	now := &keyHistory{key: key, limit: limit, previous: []weir.Limit{e.limit}}
	for _, l := range e.previous {
		if len(now.previous) < maxPrevious && !l.Equal(limit) {
			now.previous = append(now.previous, l)
		}
	}
	at.CompareAndSwap(e, now) // a concurrent change has recorded the same
	return now.previous
}

// carriedOver records that the state of key is now under limit.
func (m *limitHistory) carriedOver(key uint64, limit weir.Limit) {
	if at, e := m.find(key); e != nil && e.previous != nil && e.limit.Equal(limit) {
		at.CompareAndSwap(e, &keyHistory{key: key, limit: limit})
	}
}

func (m *limitHistory) add(e *keyHistory) {
	set := &m.sets[e.key%sets]
	for i := range set {
		if set[i].CompareAndSwap(nil, e) {
			return
		}
	}
	set[m.nextVictim.Add(1)%ways].Store(e)
}

// A rate holds the parameters of a CL.THROTTLE.
type rate struct{ burst, count, period int64 }

// limitCache caches the limit of a rate, because building one costs more than deciding by
// it. Rates with the same slot replace each other.
type limitCache struct {
	seed  maphash.Seed
	known [1024]atomic.Pointer[cachedLimit]
}

type cachedLimit struct {
	rate  rate
	limit weir.Limit
}

func newLimitCache() *limitCache { return &limitCache{seed: maphash.MakeSeed()} }

// limit returns the limit of a rate, or an error in redis-cell's style.
func (c *limitCache) limit(r rate) (weir.Limit, error) {
	at := &c.known[maphash.Comparable(c.seed, r)%uint64(len(c.known))]
	if k := at.Load(); k != nil && k.rate == r {
		return k.limit, nil
	}
	l, err := r.limit()
	if err != nil {
		return weir.Limit{}, err
	}
	at.Store(&cachedLimit{r, l})
	return l, nil
}
