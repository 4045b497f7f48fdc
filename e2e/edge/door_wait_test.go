package edge_test

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// testDoorWait: a denied request is held back until it can be admitted, in turn, if that
// is soon enough.
func testDoorWait(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies:
  - { name: patient, match: /patient, key: const:all, limits: 5/s burst 1, on_denied: { wait: 10s } }
  - { name: brief, match: /brief, key: const:all, limits: 1/h, on_denied: { wait: 1m } }
  - { name: never, match: /never, key: const:all, limits: 1/h, cost: 'request.path == "/never" ? 2 : 1', on_denied: { wait: 1m } }
`, "")
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var statuses []int
	for range 6 {
		all.Go(func() {
			status := d.get(t, "/patient")
			mu.Lock()
			statuses = append(statuses, status)
			mu.Unlock()
		})
	}
	all.Wait()
	if took := time.Since(began); took < 950*time.Millisecond || slices.ContainsFunc(statuses, func(s int) bool { return s != 200 }) {
		t.Errorf("six at 5/s burst 1: statuses %v after %v, want 200 and a second", statuses, took)
	}
	began = time.Now()
	d.want(t, "/brief", 200, 429, 429)
	d.want(t, "/never", 429, 429)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("what cannot be admitted in time was denied after %v, want at once", took)
	}
	d.clean(t)
}

// testDoorQueue: an admitted request of a leaky bucket is held back for its delay.
func testDoorQueue(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies:
  - { name: files, match: /files, key: const:all, nginx: { rate: 5r/s, burst: 2 } }
  - { name: slow, match: /files, key: const:all, nginx: { rate: 2r/s, burst: 2 } }
`, "")
	began := time.Now()
	type told struct {
		status int
		took   time.Duration
	}
	answers := make(chan told, 4)
	for range 4 {
		go func() { answers <- told{d.get(t, "/files"), time.Since(began)} }()
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
	if refused != 1 || len(took) != 3 || took[0] > 400*time.Millisecond || took[1] < 450*time.Millisecond || took[2] < 950*time.Millisecond {
		t.Errorf("four at 2r/s burst=2: %d refused and 200 after %v, want 1, and 200 after 0, 0.5 and 1s", refused, took)
	}
	d.clean(t)
}
