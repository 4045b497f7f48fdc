package respd

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/floodweir/weir"
)

// redis-cell keeps one state of a key, whatever parameters it is asked with; Weir
// keeps one of a key and limit. So that who asks with other parameters does not find a
// full bucket, the door remembers under which limit a key was last asked about, and
// names it to the store, which carries the state over.

// Of how many keys the last limit is remembered: sets of ways.
const (
	sets = 1 << 14
	ways = 4
	// maxFormer is how many former limits of a key are named at once.
	maxFormer = 4
)

// formers remembers the last limit of keys. One that is forgotten to make room costs
// its next change of parameters a fresh bucket, and nothing else.
type formers struct {
	seed maphash.Seed
	turn atomic.Uint32
	sets [sets][ways]atomic.Pointer[former]
}

// A former is what is remembered of one key. It does not change.
type former struct {
	key   uint64
	limit weir.Limit
	from  []weir.Limit // before limit, newest first, and not yet carried over
}

func newFormers() *formers { return &formers{seed: maphash.MakeSeed()} }

func (m *formers) hash(key string) uint64 { return maphash.String(m.seed, key) }

// slot is where the key stands, or nil.
func (m *formers) slot(key uint64) (*atomic.Pointer[former], *former) {
	set := &m.sets[key%sets]
	for i := range set {
		if e := set[i].Load(); e != nil && e.key == key {
			return &set[i], e
		}
	}
	return nil, nil
}

// from is the limits that the state of a key may have to be carried over from, now
// that it is asked about under limit.
func (m *formers) from(key uint64, limit weir.Limit) []weir.Limit {
	at, e := m.slot(key)
	switch {
	case e == nil:
		m.add(&former{key: key, limit: limit})
		return nil
	case e.limit == limit || e.limit.Equal(limit):
		return e.from
	}
	now := &former{key: key, limit: limit, from: []weir.Limit{e.limit}}
	for _, l := range e.from {
		if len(now.from) < maxFormer && !l.Equal(limit) {
			now.from = append(now.from, l)
		}
	}
	at.CompareAndSwap(e, now) // whoever was faster knows as much
	return now.from
}

// carried notes that the state of a key is under limit now.
func (m *formers) carried(key uint64, limit weir.Limit) {
	if at, e := m.slot(key); e != nil && e.from != nil && e.limit.Equal(limit) {
		at.CompareAndSwap(e, &former{key: key, limit: limit})
	}
}

func (m *formers) add(e *former) {
	set := &m.sets[e.key%sets]
	for i := range set {
		if set[i].CompareAndSwap(nil, e) {
			return
		}
	}
	set[m.turn.Add(1)%ways].Store(e)
}

// A rate is the parameters of a CL.THROTTLE.
type rate struct{ burst, count, period int64 }

// rates remembers what limit a rate is, for making one costs more than deciding by
// it. Rates that fall on one place push each other out.
type rates struct {
	seed  maphash.Seed
	known [1024]atomic.Pointer[known]
}

type known struct {
	rate  rate
	limit weir.Limit
}

func newRates() *rates { return &rates{seed: maphash.MakeSeed()} }

// limit is the limit of a rate that is in range, or an error in redis-cell's style.
func (c *rates) limit(r rate) (weir.Limit, error) {
	at := &c.known[maphash.Comparable(c.seed, r)%uint64(len(c.known))]
	if k := at.Load(); k != nil && k.rate == r {
		return k.limit, nil
	}
	l, err := r.limit()
	if err != nil {
		return weir.Limit{}, err
	}
	at.Store(&known{r, l})
	return l, nil
}
