package weir_test

import (
	"math"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// TestDecisionOfAResult checks that a result becomes a decision in durations, which
// replaces all fields. A wait too long for a Duration is just below Never.
func TestDecisionOfAResult(t *testing.T) {
	limit := weir.MustLimit("2/s")
	longest := int64(math.MaxInt64 / 1000)
	for _, c := range []struct {
		us   int64
		want time.Duration
	}{
		{0, 0}, {1, time.Microsecond}, {1_000_000, time.Second},
		{longest, time.Duration(longest) * time.Microsecond},
		{longest + 1, weir.Never - 1}, {algo.Never - 1, weir.Never - 1}, {algo.Never, weir.Never},
	} {
		d := weir.Decision{OK: true, Granted: 9, Remaining: 9, Degraded: "open"}
		limit.Spec().Fill(&d, &algo.Result{Balance: -3, Retry: c.us, Reset: c.us, Delay: c.us}, 1_767_225_600_000_001)
		want := weir.Decision{Limit: limit, Debt: 3, RetryAfter: c.want, ResetAfter: c.want, Delay: c.want, At: time.UnixMicro(1_767_225_600_000_001)}
		if d != want {
			t.Errorf("%d µs: %+v, want %+v", c.us, d, want)
		}
	}
	if d := limit.Spec().Decision(algo.Result{OK: true, Granted: 1, Balance: 1}, 5); !d.OK || d.Granted != 1 || d.Remaining != 1 || d.Capacity() != 2 {
		t.Errorf("of an admission: %+v", d)
	}
}
