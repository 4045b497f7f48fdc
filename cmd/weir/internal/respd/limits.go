package respd

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/floodweir/weir"
)

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
