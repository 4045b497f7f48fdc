package memstore

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// wide are a shard's wide states. The word of an entry is the ref of a record, whose header
// says which limit the state is of and how long it is. Everything here requires
// the shard's mu.
type wide struct {
	*table.Table
	slabs  slab.Slabs
	limits limits
}

// state is the words at a ref, with the room behind them, and their limit.
func (w *wide) state(r slab.Ref) ([]int64, weir.Limit) {
	rec := w.slabs.Record(r)
	return rec[1 : 1+rec[0]&(1<<32-1)], w.limits.list[rec[0]>>32].limit
}

// put keeps words in the record r, or in another one if they don't fit it well,
// and returns where. The words may be those of the record itself. It does not
// change the limit.
func (w *wide) put(r slab.Ref, words []int64) slab.Ref {
	rec := w.slabs.Record(r)
	index := rec[0] >> 32
	if size := fit(r, len(words)); size != r.Size() {
		to := w.slabs.Alloc(size)
		rec = w.slabs.Record(to)
		copy(rec[1:], words)
		w.slabs.Release(r)
		r = to
	} else if len(words) > 0 && &rec[1] != &words[0] {
		copy(rec[1:], words)
	}
	rec[0] = index<<32 | int64(len(words))
	return r
}

// fit is the size of the record to which n words go from r. They stay where they
// are unless they need more room, or less than half of it.
func fit(r slab.Ref, n int) int {
	if size := slab.SizeOf(n); size > r.Size() || size < r.Size()-2 {
		return size
	}
	return r.Size()
}

// keep makes a record of words.
func (w *wide) keep(limit weir.Limit, words []int64) slab.Ref {
	r := w.slabs.Alloc(slab.SizeOf(len(words)))
	rec := w.slabs.Record(r)
	rec[0] = int64(w.limits.hold(limit))<<32 | int64(len(words))
	copy(rec[1:], words)
	return r
}

// drop gives a record back.
func (w *wide) drop(r slab.Ref) {
	w.limits.release(uint32(w.slabs.Record(r)[0] >> 32))
	w.slabs.Release(r)
}

// price is how many keys of the cap a record of a size counts as.
func price(size int) int64 { return max(1, int64(slab.CapOf(size)/wordsPerKey)) }

// wordsPerKey is the length above which a state counts as more than one key.
const wordsPerKey = 32

// limits are those that a shard's records are of, each counted.
type limits struct {
	list  []counted
	byID  map[uint64]uint32
	holes []uint32
}

type counted struct {
	limit weir.Limit
	n     int
}

// hold is the index of a limit, for one more user.
func (l *limits) hold(limit weir.Limit) uint32 {
	id := limit.Spec().ID
	i, ok := l.byID[id]
	if !ok {
		if last := len(l.holes) - 1; last >= 0 {
			i, l.holes = l.holes[last], l.holes[:last]
		} else {
			i = uint32(len(l.list))
			l.list = append(l.list, counted{})
		}
		if l.byID == nil {
			l.byID = map[uint64]uint32{}
		}
		l.byID[id], l.list[i] = i, counted{limit: limit}
	}
	l.list[i].n++
	return i
}

// release is for a user who needs the limit no more.
func (l *limits) release(i uint32) {
	if l.list[i].n--; l.list[i].n > 0 {
		return
	}
	delete(l.byID, l.list[i].limit.Spec().ID)
	l.list[i] = counted{}
	l.holes = append(l.holes, i)
	if len(l.byID) == 0 {
		*l = limits{}
	}
}
