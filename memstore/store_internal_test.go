package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/slab"
)

// TestWords checks that a word holds every instant and every remainder, in the order of
// time, and none is gone.
func TestWords(t *testing.T) {
	var before uint64
	for _, us := range []int64{0, 1, 2, 1 << 40, lastInstant, lastInstant + 36525*24*3600*1_000_000} {
		for _, rem := range []int64{0, 1, maxUnits - 1} {
			w := pack(us, rem)
			if u, r := unpack(w); u != us || r != rem {
				t.Errorf("%d and %d come back as %d and %d", us, rem, u, r)
			}
			if w < before || w&pin != 0 || w|pin == dropped {
				t.Errorf("%d and %d are the word %x after %x", us, rem, w, before)
			}
			before = w
		}
	}
}

// TestSlabs checks that slabs keep what is put into them, whatever comes and goes beside
// it, and keep no memory for what has gone.
func TestSlabs(t *testing.T) {
	limits := []weir.Limit{weir.MustLimit("1/s fixed_window"), weir.MustLimit("2/s fixed_window")}
	r := rand.New(rand.NewPCG(1, 2))
	type kept struct {
		ref   slab.Ref
		words []int64
		limit weir.Limit
	}
	var all []kept
	var w wide
	words := func() []int64 {
		s := make([]int64, r.IntN(1<<r.IntN(12)))
		for i := range s {
			s[i] = r.Int64()
		}
		return s
	}
	for range 3000 {
		switch i := r.IntN(3); {
		case i == 0 && len(all) > 0:
			k := &all[r.IntN(len(all))]
			k.words = words()
			k.ref = w.put(k.ref, k.words)
		case i == 1 && len(all) > 20:
			j := r.IntN(len(all))
			w.drop(all[j].ref)
			all = slices.Delete(all, j, j+1)
		default:
			k := kept{words: words(), limit: limits[r.IntN(2)]}
			k.ref = w.keep(k.limit, k.words)
			all = append(all, k)
		}
	}
	for _, k := range all {
		if got, limit := w.state(k.ref); !slices.Equal(got, k.words) || limit != k.limit {
			t.Fatalf("a state of %d words under %s comes back as %d under %s", len(k.words), k.limit, len(got), limit)
		}
	}
	for _, k := range all {
		w.drop(k.ref)
	}
	for size := range w.slabs {
		if w.slabs[size] != nil {
			t.Errorf("chunks of size %d are kept without records", size)
		}
	}
	if len(w.limits.list) != 0 {
		t.Errorf("%d limits are kept without records", len(w.limits.list))
	}
}
