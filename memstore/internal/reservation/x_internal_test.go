package reservation

import (
	"math/rand/v2"
	"testing"
)

// TestHolds checks that holds leave by deadline, and are found until then by their id and
// their state.
func TestHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Queue
	known := map[Name]int64{}
	state := func() uint64 { return 1 + r.Uint64N(5) }
	has := func(s uint64) bool {
		for id := range known {
			if id.State == s {
				return true
			}
		}
		return false
	}
	last := int64(0)
	for i := range 20_000 {
		switch k := r.IntN(10); {
		case k < 6:
			id := Name{state(), r.Uint64N(1000)}
			if _, ok := known[id]; !ok {
				known[id] = last + r.Int64N(1000)
				h.Add(Record{Name: id, Deadline: known[id]})
			}
		case k == 6 && r.IntN(50) == 0:
			s := state()
			h.Forget(s)
			for id := range known {
				if id.State == s {
					delete(known, id)
				}
			}
		default:
			if len(h.heap) == 0 {
				break
			}
			x := h.Pop()
			if x.Deadline < last {
				t.Fatalf("step %d: deadline %d after %d", i, x.Deadline, last)
			}
			last = x.Deadline
			if _, ok := known[x.Name]; ok == x.Void && known[x.Name] == x.Deadline {
				t.Fatalf("step %d: a hold that is known %t left as void %t", i, ok, x.Void)
			}
			if !x.Void {
				delete(known, x.Name)
			}
		}
		s := state()
		if h.Any(s) != has(s) {
			t.Fatalf("step %d: state %d has holds: %t, want %t", i, s, h.Any(s), has(s))
		}
		id := Name{s, r.Uint64N(1000)}
		if got, want := h.Find(id) != nil, known[id] != 0; got != want && known[id] != 0 {
			t.Fatalf("step %d: hold %v is found: %t, want %t", i, id, got, want)
		}
	}
	for len(h.heap) > 0 {
		h.Pop()
	}
	if h.byID != nil || h.list != nil {
		t.Error("the memory of holds that left is kept")
	}
}
