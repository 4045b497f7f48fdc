package edge_test

import (
	"slices"
	"testing"
	"time"
)

// testSiteQueue checks that an admitted request of a leaky bucket is delayed.
func testSiteQueue(t *testing.T, weir string) {
	d := startSite(t, weir, `policies:
  - { name: files, match: /files, key: const:all, nginx: { rate: 5r/s, burst: 2 } }
  - { name: slow, match: /files, key: const:all, nginx: { rate: 1r/s, burst: 2 } }
`, "")
	began := time.Now()
	type timed struct {
		status int
		took   time.Duration
	}
	answers := make(chan timed, 4)
	for range 4 {
		go func() { answers <- timed{d.get(t, "/files"), time.Since(began)} }()
	}
	var took []time.Duration
	refused := 0
	for range 4 {
		switch a := <-answers; a.status {
		case 200:
			took = append(took, a.took)
		case 503:
			refused++
		default:
			t.Fatalf("status %d, want 200 or 503", a.status)
		}
	}
	slices.Sort(took)
	if refused != 1 || len(took) != 3 || took[0] > 900*time.Millisecond || took[1] < 950*time.Millisecond || took[2] < 1950*time.Millisecond {
		t.Errorf("four at 1r/s burst=2: %d refused and 200 after %v, want 1, and 200 after 0, 1 and 2s", refused, took)
	}
	d.clean(t)
}
