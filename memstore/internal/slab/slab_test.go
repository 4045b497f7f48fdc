package slab_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/memstore/internal/slab"
)

// TestRecords checks that a size has room for what asked for it, at most half as much
// again is wasted but for the shortest, and no record lies upon another.
func TestRecords(t *testing.T) {
	for n := range 10_000 {
		if c := slab.CapOf(slab.SizeOf(n)); c < n || n > 2 && 2*c >= 3*n+3 {
			t.Fatalf("%d words get room for %d", n, c)
		}
	}
	var s slab.Slabs
	known := map[slab.Ref]int64{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range int64(20_000) {
		if r.IntN(2) == 0 {
			for ref := range known {
				s.Release(ref)
				delete(known, ref)
				break
			}
			continue
		}
		ref := s.Alloc(r.IntN(16))
		if _, ok := known[ref]; ok {
			t.Fatalf("step %d: record %x is in use", i, ref)
		}
		known[ref] = i
		rec := s.Record(ref)
		if len(rec) != 1+slab.CapOf(ref.Size()) {
			t.Fatalf("a record of size %d has %d words", ref.Size(), len(rec))
		}
		for j := range rec {
			rec[j] = i
		}
	}
	for ref, want := range known {
		for _, got := range s.Record(ref) {
			if got != want {
				t.Fatalf("record %x holds %d, want %d", ref, got, want)
			}
		}
		s.Release(ref)
	}
	for size := range s {
		if s[size] != nil {
			t.Errorf("chunks of size %d are kept without records", size)
		}
	}
}
