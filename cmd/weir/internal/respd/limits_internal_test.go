package respd

import (
	"fmt"
	"testing"
)

// TestRates checks that equal parameters give equal limits, also when they replace each
// other in the cache.
func TestRates(t *testing.T) {
	c := newLimitCache()
	for range 2 {
		for i := range int64(5000) {
			l, err := c.limit(rate{burst: i, count: 30, period: 60})
			if want := fmt.Sprintf("30/m burst %d", i+1); err != nil || l.String() != want {
				t.Fatalf("limit = %v, %v, want %s", l, err, want)
			}
		}
	}
}
