package algo_test

import (
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// reservations returns n open reservations of one token each, one per µs from at on.
func reservations(n, at int64) func(func(algo.Due) bool) {
	return func(yield func(algo.Due) bool) {
		for i := range n {
			if !yield(algo.Due{Deadline: at + 1 + i, At: at, N: 1}) {
				return
			}
		}
	}
}

// TestAwait checks that a denial waits for the reservations that return enough tokens. The work
// for it is bounded: with too many deadlines the wait is too short, never too long.
func TestAwait(t *testing.T) {
	rule := must(algo.NewFixedWindow(1000, hour, false))
	s, _ := rule.Do(nil, take(start, 1000))
	for _, c := range []struct{ open, want, retry int64 }{
		{1000, 1, 1}, {1000, 512, 512}, {1000, 513, 513}, {1000, 1000, 513}, {10, 11, hour},
	} {
		a := peek(start, c.want)
		_, r := rule.Do(s, a)
		if r = algo.Await(rule, s, a, r, reservations(c.open, start), nil); r.OK || r.Retry != c.retry {
			t.Errorf("%d reservations, peek %d = %s, want retry %d", c.open, c.want, story(r), c.retry)
		}
	}
	for _, c := range []struct{ taken, open, reset int64 }{{20, 20, 20}, {32, 32, 32}, {33, 33, hour}, {20, 10, hour}} {
		s, r := rule.Do(nil, take(start, c.taken))
		if r = algo.Await(rule, s, take(start, c.taken), r, reservations(c.open, start), nil); r.Reset != c.reset {
			t.Errorf("%d taken, %d reservations: %s, want reset %d", c.taken, c.open, story(r), c.reset)
		}
	}
	if _, r := rule.Do(s, peek(start, 1)); r.OK {
		t.Errorf("Await changed the state: %s", story(r))
	}
}
