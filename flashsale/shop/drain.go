package shop

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/floodweir/weir"
)

// drain is what the clerks of this shop have shown that they can write, in orders per
// second, and the limit of admission that is made of it.
//
// A full batch shows what can be written, and so does any batch that was faster than what
// was shown before: a small batch that is slower shows only that little came. The rate moves
// by a third of the difference with each.
type drain struct {
	limiter *weir.Limiter
	key     string

	mu   sync.Mutex
	rate float64
	set  int64 // what the limiter was made for
}

const (
	firstRate = 5000
	leastRate = 50
	mostRate  = 200_000
)

func newDrain(store weir.Store, worker string) (*drain, error) {
	d := &drain{key: worker, rate: firstRate, set: firstRate}
	l, err := drainLimit(firstRate)
	if err == nil {
		d.limiter, err = weir.New(store, l, weir.Config{Prefix: "drain"})
	}
	if err != nil {
		return nil, fmt.Errorf("shop: limit of the drain: %w", err)
	}
	return d, nil
}

// drainLimit is rate per second, and a fifth of a second at once.
func drainLimit(rate int64) (weir.Limit, error) {
	return weir.NewLimit(weir.TokenBucket{Count: rate, Period: time.Second, Burst: max(leastRate, rate/5)})
}

// showed notes that n orders were written in took by one of so many clerks.
func (d *drain) showed(n int, took time.Duration, full bool, clerks int) {
	if n == 0 || took <= 0 {
		return
	}
	// A slow write is a sign whatever its size.
	seen := float64(n) / took.Seconds() * float64(clerks)
	d.mu.Lock()
	defer d.mu.Unlock()
	if seen > d.rate || full || took > time.Second {
		d.move(d.rate + (seen-d.rate)/3)
	}
}

// stalled notes that nothing could be written.
func (d *drain) stalled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.move(d.rate / 2)
}

// move requires mu. The limit follows in steps of a tenth, so that it does not change with
// every batch.
func (d *drain) move(rate float64) {
	d.rate = min(mostRate, max(leastRate, rate))
	if math.Abs(d.rate-float64(d.set)) < float64(d.set)/10 {
		return
	}
	if l, err := drainLimit(int64(d.rate)); err == nil && d.limiter.SetLimit(l, weir.CarryProportional) == nil {
		d.set = int64(d.rate)
	}
}

func (d *drain) shown() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rate
}
