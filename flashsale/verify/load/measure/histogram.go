package measure

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// fine is the number of bits of a value that select its bucket. A bucket's width is 1/64 of its
// value, so a quantile is at most 1.6 % too high.
const fine = 6

// A Histogram counts times in buckets of microseconds whose width grows with the value. It is
// safe for concurrent use.
type Histogram struct {
	buckets [(40 - fine + 1) << fine]atomic.Int64
	max     atomic.Int64
}

// bucketOf returns the bucket of n microseconds, ceilOf the largest value of a bucket.
func bucketOf(n int64) int {
	n = max(0, min(n, 1<<39))
	if n < 1<<fine {
		return int(n)
	}
	shift := bits.Len64(uint64(n)) - 1 - fine
	return (shift+1)<<fine + int(n>>shift) - 1<<fine
}

func ceilOf(bucket int) int64 {
	if bucket < 1<<fine {
		return int64(bucket)
	}
	shift := bucket>>fine - 1
	return (int64(bucket&(1<<fine-1)+1<<fine)+1)<<shift - 1
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	n := (int64(d) + 999) / 1000
	h.buckets[bucketOf(n)].Add(1)
	for {
		was := h.max.Load()
		if n <= was || h.max.CompareAndSwap(was, n) {
			return
		}
	}
}

// Quantiles returns the quantiles of all added values, rounded up.
func (h *Histogram) Quantiles() Quantiles {
	q := Quantiles{Max: time.Duration(h.max.Load()) * time.Microsecond}
	for i := range h.buckets {
		q.Count += h.buckets[i].Load()
	}
	var seen int64
	for i := range h.buckets {
		n := h.buckets[i].Load()
		if n == 0 {
			continue
		}
		at := min(time.Duration(ceilOf(i))*time.Microsecond, q.Max)
		for _, p := range []struct {
			of int64
			to *time.Duration
		}{{50, &q.P50}, {90, &q.P90}, {99, &q.P99}} {
			rank := (q.Count*p.of + 99) / 100
			if seen < rank && rank <= seen+n {
				*p.to = at
			}
		}
		seen += n
	}
	return q
}

// Quantiles holds the quantiles of a distribution of times.
type Quantiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}
