package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// leaky is a leaky bucket: a bucket that holds one request in service and burst
// more. The missing part of its level has yet to drain.
type leaky struct {
	*bucket
	queue bool
	free  *big.Int // what goes on without a delay: 1 + free tokens, in units
}

func newLeaky(c weir.LeakyBucket) State {
	b := newBucket(c.Count, c.Period.Microseconds(), c.Burst+1)
	return &leaky{b, c.Queue, mul(1+c.QueueFree, b.period)}
}

// Do adds the delay: the time until only 1 + free tokens have yet to drain.
func (l *leaky) Do(a algo.Ask) algo.Result {
	r := l.bucket.Do(a)
	asked := a.Op == algo.Take || a.Op == algo.TakeUpTo || a.Op == algo.Peek
	if !l.queue || !asked || !r.OK || a.N == 0 {
		return r
	}
	level := l.levelAt(a.Now)
	if a.Op == algo.Peek {
		level.Sub(level, mul(a.N, l.period))
	}
	owed := new(big.Int).Sub(l.full, level)
	r.Delay = max(0, ceilDiv(owed.Sub(owed, l.free), l.rate))
	return r
}

func (l *leaky) Clone() State {
	b := *l.bucket
	return &leaky{&b, l.queue, l.free}
}
