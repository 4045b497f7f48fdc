package shop

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/floodweir/weir"
)

// writeRate measures how many orders per second the order writers of this process can write,
// and limits admissions to that rate.
//
// A full batch shows the rate. So does any batch that was faster than the measured rate. A
// small, slower batch shows only that few reservations came. Each measurement moves the rate
// by a third of the difference.
type writeRate struct {
	limiter *weir.Limiter
	key     string

	mu    sync.Mutex
	rate  float64
	limit int64 // the limiter's rate
}

const (
	initialRate = 5000
	minRate     = 50
	maxRate     = 200_000
)

func newWriteRate(store weir.Store, worker string) (*writeRate, error) {
	d := &writeRate{key: worker, rate: initialRate, limit: initialRate}
	l, err := rateLimit(initialRate)
	if err == nil {
		d.limiter, err = weir.New(store, l, weir.Config{Prefix: "drain"})
	}
	if err != nil {
		return nil, fmt.Errorf("shop: limit of the write rate: %w", err)
	}
	return d, nil
}

// rateLimit returns a limit of rate per second with a burst of a fifth of a second.
func rateLimit(rate int64) (weir.Limit, error) {
	return weir.NewLimit(weir.TokenBucket{Count: rate, Period: time.Second, Burst: max(minRate, rate/5)})
}

// measured records that one of the writers wrote n orders in took. full means that the batch
// had the maximum size.
func (d *writeRate) measured(n int, took time.Duration, full bool) {
	if n == 0 || took <= 0 {
		return
	}
	seen := float64(n) / took.Seconds()
	d.mu.Lock()
	defer d.mu.Unlock()
	if seen > d.rate || full || took > time.Second { // a slow write counts whatever its size
		d.set(d.rate + (seen-d.rate)/3)
	}
}

// failed records that a write failed.
func (d *writeRate) failed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(d.rate / 2)
}

// set requires mu. It changes the limiter only in steps of a tenth, not with every batch.
func (d *writeRate) set(rate float64) {
	d.rate = min(maxRate, max(minRate, rate))
	if math.Abs(d.rate-float64(d.limit)) < float64(d.limit)/10 {
		return
	}
	if l, err := rateLimit(int64(d.rate)); err == nil && d.limiter.SetLimit(l, weir.CarryProportional) == nil {
		d.limit = int64(d.rate)
	}
}

func (d *writeRate) perSecond() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rate
}
