package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir"
)

// SipHash-1-3 under the key 00 01 … 0f, of messages 00 01 … of so many bytes, as
// in the tests of Rust's standard library.
func TestSipHash(t *testing.T) {
	key := sipKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	const message = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	for n, want := range map[int]uint64{
		0:  0xabac0158050fc4dc,
		1:  0xc9f49bf37d57ca93,
		7:  0xd3927d989bb11140,
		8:  0x369095118d299a8e,
		9:  0x25a48eb36c063de4,
		15: 0xd320d86d2a519956,
		16: 0xcc4fdd1a7d908b66,
	} {
		if got := key.sum(message[:n]); got != want {
			t.Errorf("of %d bytes: %016x, want %016x", n, got, want)
		}
	}
}

// A word holds every instant and every remainder, in the order of time, and none
// is gone.
func TestWords(t *testing.T) {
	var before uint64
	for _, us := range []int64{0, 1, 2, 1 << 40, lastInstant, lastInstant + 36525*24*3600*1_000_000} {
		for _, rem := range []int64{0, 1, maxUnits - 1} {
			w := pack(us, rem)
			if u, r := unpack(w); u != us || r != rem {
				t.Errorf("%d and %d come back as %d and %d", us, rem, u, r)
			}
			if w < before || w&pin != 0 || w|pin == gone {
				t.Errorf("%d and %d are the word %x after %x", us, rem, w, before)
			}
			before = w
		}
	}
}

// A table finds what was added to it, before and after it has moved, and knows
// nothing else.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []int{0, 8} {
		table := newTable(bits, 0)
		known := map[uint64]uint64{}
		for range 5000 {
			hash := r.Uint64() | 1
			if table.full() {
				old := table
				table = table.moved()
				for h := range known {
					if e := old.find(h); e != nil && e.word.Load() != gone {
						t.Fatal("the old table still knows a hash")
					}
				}
			}
			table.add(hash, hash>>7)
			known[hash] = hash >> 7
			if r.IntN(3) == 0 { // forget one
				for h := range known {
					table.find(h).word.Store(gone)
					delete(known, h)
					break
				}
			}
		}
		for h, w := range known {
			if e := table.find(h); e == nil || e.word.Load() != w {
				t.Fatalf("hash %x is not found with its word", h)
			}
		}
		if table.find(2) != nil || table.live() != len(known) || len(table.entries) > 4*len(known) {
			t.Errorf("%d of %d entries are live, want %d", table.live(), len(table.entries), len(known))
		}
	}
}

// Slabs keep what is put into them, whatever comes and goes beside it, and keep
// no memory for what has gone.
func TestSlabs(t *testing.T) {
	limits := []weir.Limit{weir.MustLimit("1/s fixed_window"), weir.MustLimit("2/s fixed_window")}
	r := rand.New(rand.NewPCG(1, 2))
	type kept struct {
		ref   ref
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
			t.Errorf("chunks of size %d are kept for nobody", size)
		}
	}
	if len(w.limits.list) != 0 {
		t.Errorf("%d limits are kept for nobody", len(w.limits.list))
	}
}

// Holds leave by deadline, and are found until then by their id and their state.
func TestHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h holds
	known := map[holdID]int64{}
	state := func() uint64 { return 1 + r.Uint64N(5) }
	has := func(s uint64) bool {
		for id := range known {
			if id.state == s {
				return true
			}
		}
		return false
	}
	last := int64(0)
	for i := range 20_000 {
		switch k := r.IntN(10); {
		case k < 6:
			id := holdID{state(), r.Uint64N(1000)}
			if _, ok := known[id]; !ok {
				known[id] = last + r.Int64N(1000)
				h.add(hold{holdID: id, deadline: known[id]})
			}
		case k == 6 && r.IntN(50) == 0:
			s := state()
			h.forget(s)
			for id := range known {
				if id.state == s {
					delete(known, id)
				}
			}
		default:
			if len(h.heap) == 0 {
				break
			}
			x := h.pop()
			if x.deadline < last {
				t.Fatalf("step %d: deadline %d after %d", i, x.deadline, last)
			}
			last = x.deadline
			if _, ok := known[x.holdID]; ok == x.void && known[x.holdID] == x.deadline {
				t.Fatalf("step %d: a hold that is known %t left as void %t", i, ok, x.void)
			}
			if !x.void {
				delete(known, x.holdID)
			}
		}
		s := state()
		if h.any(s) != has(s) {
			t.Fatalf("step %d: state %d has holds: %t, want %t", i, s, h.any(s), has(s))
		}
		id := holdID{s, r.Uint64N(1000)}
		if got, want := h.find(id) != nil, known[id] != 0; got != want && known[id] != 0 {
			t.Fatalf("step %d: hold %v is found: %t, want %t", i, id, got, want)
		}
	}
	for len(h.heap) > 0 {
		h.pop()
	}
	if h.byID != nil || h.list != nil {
		t.Error("the memory of holds that left is kept")
	}
}
