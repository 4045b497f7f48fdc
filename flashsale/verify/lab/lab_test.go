package lab_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/verify/lab"
)

// TestDesigns runs each design with four buyers per unit, some of whom pause longer than a lock
// lasts. It runs in fake time.
func TestDesigns(t *testing.T) {
	const runs = 20
	for _, d := range lab.Designs() {
		t.Run(string(d), func(t *testing.T) {
			oversold := 0
			for range runs {
				synctest.Test(t, func(t *testing.T) {
					r, err := lab.Run(t.Context(), lab.Config{Design: d, Buyers: 100, Stock: 25, Pause: 200 * time.Millisecond})
					if err != nil {
						t.Fatal(err)
					}
					if r.Paused == 0 {
						t.Error("no buyer paused")
					}
					if r.Oversold > 0 {
						oversold++
					}
					if r.Undersold > 0 {
						t.Errorf("%d of 25 units were left, with 100 buyers", r.Undersold)
					}
					if r.Oversold != max(0, r.Sold-25) || r.Design != d || r.Buyers != 100 || r.Stock != 25 || r.PerSecond <= 0 {
						t.Errorf("inconsistent result: %+v", r)
					}
				})
			}
			t.Logf("%s: oversold in %d of %d runs", d, oversold, runs)
			if d == lab.Naive && oversold == 0 {
				t.Errorf("oversold in 0 of %d runs: want at least 1", runs)
			}
			if d != lab.Naive && oversold > 0 {
				t.Errorf("oversold in %d of %d runs, want 0", oversold, runs)
			}
		})
	}
}

// TestWithoutPauses checks that all designs are correct without a pause, the naive lock too.
func TestWithoutPauses(t *testing.T) {
	for _, d := range lab.Designs() {
		synctest.Test(t, func(t *testing.T) {
			r, err := lab.Run(t.Context(), lab.Config{Design: d, Buyers: 60, Stock: 20})
			if err != nil || r.Sold != 20 || r.Paused != 0 {
				t.Errorf("%s sold %d of 20, %d paused, %v", d, r.Sold, r.Paused, err)
			}
		})
	}
}

// TestFewBuyers checks that every buyer gets a unit while units are left.
func TestFewBuyers(t *testing.T) {
	for _, d := range lab.Designs() {
		for _, c := range []lab.Config{{Buyers: 1, Stock: 1}, {Buyers: 7, Stock: 500}, {Buyers: 30, Stock: 30, Pause: 60 * time.Millisecond}, {Buyers: 40, Stock: 3}} {
			if d == lab.Naive && c.Pause > 0 {
				continue
			}
			c.Design = d
			synctest.Test(t, func(t *testing.T) {
				r, err := lab.Run(t.Context(), c)
				if err != nil || r.Sold != min(c.Buyers, c.Stock) || r.Oversold+r.Undersold != 0 {
					t.Errorf("%s: %d buyers of %d: %+v, %v", d, c.Buyers, c.Stock, r, err)
				}
			})
		}
	}
}

func TestRunEnds(t *testing.T) {
	for _, d := range lab.Designs() {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("enough"))
		_, err := lab.Run(ctx, lab.Config{Design: d, Buyers: 50, Stock: 50, Pause: 2 * time.Second})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("%s: %v, want the end of the context", d, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := lab.Config{Design: lab.Atomic, Buyers: 1, Stock: 1}
	for field, change := range map[string]func(*lab.Config){
		"design": func(c *lab.Config) { c.Design = "lucky" },
		"buyers": func(c *lab.Config) { c.Buyers = lab.MaxBuyers + 1 },
		"stock":  func(c *lab.Config) { c.Stock = 0 },
		"pause":  func(c *lab.Config) { c.Pause = lab.MaxPause + 1 },
		"pauses": func(c *lab.Config) { c.Pauses = -1 },
		"ttl":    func(c *lab.Config) { c.TTL = time.Microsecond },
	} {
		c := good
		change(&c)
		if _, err := lab.Run(t.Context(), c); !errors.Is(err, lab.ErrInvalid) || !strings.Contains(fmt.Sprint(err), ": "+field+" ") {
			t.Errorf("%+v: %v, want ErrInvalid with %s", c, err, field)
		}
	}
}
