package waitqueue_test

import (
	"math"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/waitqueue"
)

func TestBehind(t *testing.T) {
	for _, c := range []struct {
		waiting            int
		n, capacity, count int64
		period             time.Duration
		ask                int64
		retry              time.Duration // after 5s
	}{
		{0, 1, 1, 1, time.Second, 1, 5 * time.Second},
		{1, 1, 1, 1, time.Second, 1, 6 * time.Second},
		{3, 2, 5, 3, time.Second, 5, 6 * time.Second},
		{1, 2, 3, 3, time.Second, 3, 5*time.Second + 333334*time.Microsecond},
		{9, 1, 10, 1, time.Second, 10, 5 * time.Second},
		{7, 1, 4, 4, 0, 4, 5 * time.Second},           // no refill
		{7, 9, 4, 4, time.Second, 9, 5 * time.Second}, // above the capacity: the store returns Never
		{1000, 1 << 40, 1 << 40, 1, 365 * 24 * time.Hour, 1 << 40, math.MaxInt64},
		{math.MaxInt, math.MaxInt64, math.MaxInt64, 1, time.Second, math.MaxInt64, 5 * time.Second},
	} {
		b := waitqueue.BehindOf(c.waiting, c.n, c.capacity, c.count, c.period)
		if retry := b.RetryAfter(5 * time.Second); b.Ask != c.ask || retry != c.retry {
			t.Errorf("%+v: asks for %d, retry after %v", c, b.Ask, retry)
		}
	}
	b := waitqueue.BehindOf(0, 1, 1, 1, time.Second)
	if got := b.RetryAfter(0); got != time.Microsecond {
		t.Errorf("a denial has the RetryAfter %v, want at least 1µs", got)
	}
	if got := b.RetryAfter(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("Never becomes %v", got)
	}
}
