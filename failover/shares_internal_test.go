package failover

import (
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

func burst(t *testing.T, n int64) weir.Limit {
	t.Helper()
	l, err := weir.NewLimit(weir.TokenBucket{Count: 1, Period: time.Hour, Burst: n})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSharesAreBounded(t *testing.T) {
	s := shares{nodes: 2}
	var wg sync.WaitGroup
	for g := range int64(4) {
		wg.Go(func() {
			for i := range int64(maxShares) {
				if l := burst(t, 4*i+g+2); s.of(l).Capacity() != l.Capacity()/2 {
					t.Errorf("share of %s = %s", l, s.of(l))
				}
			}
		})
	}
	wg.Wait()
	if n := len(*s.known.Load()); n != maxShares {
		t.Errorf("%d shares are remembered, want %d", n, maxShares)
	}
}

// TestSharesOfOneFingerprint checks that two limits with the same fingerprint have their
// own shares.
func TestSharesOfOneFingerprint(t *testing.T) {
	s := shares{nodes: 2}
	mine, other := burst(t, 10), burst(t, 20)
	known := map[uint64]sharing{mine.Spec().ID: {other, share(other, 2)}}
	s.known.Store(&known)
	for range 2 {
		if got := s.of(mine).Capacity(); got != 5 {
			t.Errorf("share of %s has a capacity of %d, want 5", mine, got)
		}
	}
	if len(*s.known.Load()) != 1 {
		t.Error("the limit that was there was replaced")
	}
}
