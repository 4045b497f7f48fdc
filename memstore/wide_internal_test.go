//go:build !race

package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// TestWideRecords checks that a record returns the words that were written last, joined or not,
// also if it changes between both, and other records stay as they are.
func TestWideRecords(t *testing.T) {
	w := &wide{Table: table.New(0)}
	limits := []weir.Limit{weir.MustLimit("5/s fixed_window"), weir.MustLimit("5/s sliding_log"), weir.MustLimit("1000003/s")}
	sizes := []int64{0, 1, 2, 1<<lowerBits - 1, 1 << lowerBits, 1 << 41, 1<<53 - 1, 1 << 53, 1<<63 - 1, -1}
	r := rand.New(rand.NewPCG(18, 2))
	type record struct {
		words []int64
		limit weir.Limit
	}
	known := map[slab.Ref]record{}
	check := func(step int, ref slab.Ref) {
		want := known[ref]
		if got, limit := w.state(ref); !slices.Equal(got, want.words) || limit != want.limit {
			t.Fatalf("step %d: record %x has %v under %v, want %v under %v", step, ref, got, limit, want.words, want.limit)
		}
	}
	joinedOnes, apart := 0, 0
	for step := range 20_000 {
		var words []int64
		for range 1 + r.IntN(4) {
			words = append(words, sizes[r.IntN(len(sizes))])
		}
		limit := limits[r.IntN(len(limits))]
		ref := w.keep(limit, words)
		if _, ok := known[ref]; ok {
			t.Fatalf("step %d: record %x is in use", step, ref)
		}
		known[ref] = record{words, limit}
		for old, is := range known {
			switch r.IntN(3) {
			case 0: // in place, as a rule does
				in, _ := w.state(old)
				in[0] = words[0]
				words = slices.Clone(in)
				ref = w.put(old, in)
			case 1:
				ref = w.put(old, words)
			default:
				w.drop(old)
				delete(known, old)
				continue
			}
			delete(known, old)
			known[ref] = record{words, is.limit}
			check(step, ref)
			if w.isJoined(ref) {
				joinedOnes++
			} else if len(words) == 2 {
				apart++
			}
			break
		}
		if step%100 == 0 {
			for ref := range known {
				check(step, ref)
			}
		}
	}
	if joinedOnes == 0 || apart == 0 {
		t.Errorf("%d joined records and %d others of two words were checked, want both", joinedOnes, apart)
	}
}
