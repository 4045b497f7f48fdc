package respd

import (
	"fmt"
	"sync"
	"testing"

	"github.com/floodweir/weir"
)

// TestHistory checks in steps which limits of a key are remembered.
func TestHistory(t *testing.T) {
	m := newLimitHistory()
	a, b, c := weir.MustLimit("1/s burst 1"), weir.MustLimit("2/s burst 2"), weir.MustLimit("3/s burst 3")
	for i, step := range []struct {
		limit   weir.Limit
		want    []weir.Limit
		carried bool
	}{
		{a, nil, true},
		{b, []weir.Limit{a}, false}, // only looked at
		{b, []weir.Limit{a}, false},
		{c, []weir.Limit{b, a}, false},
		{a, []weir.Limit{c, b}, true},
		{a, nil, true},
		{weir.MustLimit("1/1s burst 1"), nil, true}, // the same, written in another way
		{c, []weir.Limit{a}, true},
		{c, nil, true},
	} {
		got := m.previous(1, step.limit)
		if fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("step %d: from = %v, want %v", i, got, step.want)
		}
		if step.carried {
			m.carriedOver(1, step.limit)
		}
	}
	for i := range 100 {
		if got := m.previous(1, weir.MustLimit(fmt.Sprintf("%d/m", i+1))); len(got) > maxPrevious {
			t.Fatalf("%d former limits, want at most %d", len(got), maxPrevious)
		}
	}
}

// TestHistoryIsBounded checks that a million keys leave at most sets·ways entries.
func TestHistoryIsBounded(t *testing.T) {
	m, limit := newLimitHistory(), weir.MustLimit("1/s")
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 250_000 {
				m.previous(m.hash(fmt.Sprint(g, i)), limit)
			}
		})
	}
	all.Wait()
	kept := 0
	for i := range m.sets {
		for j := range m.sets[i] {
			if m.sets[i][j].Load() != nil {
				kept++
			}
		}
	}
	if kept > sets*ways || kept < sets*ways*9/10 {
		t.Errorf("%d keys are remembered, want about %d", kept, sets*ways)
	}
}

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
