package flashsale_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/verify/lab"
)

// TestLab runs each design of the lab twenty times over a real Redis, with a buyer who pauses
// longer than a lock lasts. The naive lock oversells; the other three never do.
func TestLab(t *testing.T) {
	t.Parallel()
	const runs = 20
	s := redistest.Start(t)
	client := redisClient(t, "redis://"+s.Addr)
	for _, d := range lab.Designs() {
		t.Run(string(d), func(t *testing.T) {
			oversold, undersold, units := 0, 0, 0
			var took time.Duration
			for range runs {
				r, err := lab.Run(t.Context(), lab.Config{Design: d, Buyers: 40, Stock: 10, Pause: 60 * time.Millisecond, TTL: 15 * time.Millisecond,
					Pauses: 1, Redis: client})
				if err != nil {
					t.Fatal(err)
				}
				if r.Oversold > 0 {
					oversold++
				}
				units += r.Oversold
				undersold += r.Undersold
				took += r.Took
			}
			t.Logf("%s: oversold in %d of %d runs, %d units in all; undersold %d; %s a run", d, oversold, runs, units, undersold, (took / runs).Round(time.Millisecond))
			if d == lab.Naive && oversold == 0 {
				t.Errorf("oversold in 0 of %d runs: want at least 1", runs)
			}
			if d != lab.Naive && oversold+undersold > 0 {
				t.Errorf("oversold in %d of %d runs and left %d units, want 0 of both", oversold, runs, undersold)
			}
		})
	}
	if n := s.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("%v keys are left, want none", n)
	}
}
