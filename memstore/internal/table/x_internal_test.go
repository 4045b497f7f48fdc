package table

import (
	"math/rand/v2"
	"testing"
)

// TestTable checks that a table finds what was added to it, before and after it has moved,
// and knows nothing else.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []int{0, 8} {
		known := map[uint64]uint64{}
		tab := New(bits)
		for range 5000 {
			hash := r.Uint64() | 1
			if tab.Full() {
				old := tab
				tab = tab.Moved()
				for h := range known {
					if e := old.Find(h); e != nil && e.Word.Load() != Dropped {
						t.Fatal("the old table still knows a hash")
					}
				}
			}
			tab.Add(hash, hash>>7)
			known[hash] = hash >> 7
			if r.IntN(3) == 0 { // forget one
				for h := range known {
					tab.Find(h).Word.Store(Dropped)
					delete(known, h)
					break
				}
			}
		}
		for h, w := range known {
			if e := tab.Find(h); e == nil || e.Word.Load() != w {
				t.Fatalf("hash %x is not found with its word", h)
			}
		}
		if tab.Find(2) != nil || tab.live() != len(known) || len(tab.Entries) > 4*len(known) {
			t.Errorf("%d of %d entries are live, want %d", tab.live(), len(tab.Entries), len(known))
		}
	}
}
