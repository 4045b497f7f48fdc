package memstore_test

import (
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// TestSharedSlots checks that concurrency limits that are shared count the same slots,
// also while the number of them changes and some still ask with the former one.
func TestSharedSlots(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, step := range []struct {
		verb  weir.Verb
		limit string
		n     int64
		ok    bool
		left  int64
	}{
		{weir.Take, "4 concurrency lease 10s shared", 3, true, 1},
		{weir.Take, "6 concurrency lease 10s shared", 4, false, 3},
		{weir.Take, "6 concurrency lease 20s shared", 2, true, 1},
		{weir.Take, "4 concurrency lease 10s shared", 1, false, 0},
		{weir.Return, "4 concurrency lease 10s shared", 2, true, 1},
		{weir.Take, "6 concurrency lease 10s shared", 3, true, 0},
		{weir.Take, "6 concurrency lease 10s", 6, true, 0},
	} {
		d, err := store.Do(t.Context(), weir.Request{Verb: step.verb, Key: "k", Limit: weir.MustLimit(step.limit), N: step.n})
		if err != nil || d.OK != step.ok || d.Remaining != step.left {
			t.Errorf("step %d: %s %d of %s = %v, %d left, %v; want %v, %d left", i, step.verb, step.n, step.limit, d.OK, d.Remaining, err, step.ok, step.left)
		}
	}
}
