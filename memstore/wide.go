package memstore

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A wide is the wide states of a shard. The word of an entry is the ref of a record,
// whose header holds the limit and the length of the state. Everything here requires the
// shard's mu.
type wide struct {
	*table.Table
	slabs  slab.Slabs
	limits limits
	two    [2]int64 // of state
}

// A record of two small words, such as the end and the count of a window, has them in one.
const (
	joined    = 1 << 31 // in the header, instead of the length 2
	lengthOf  = joined - 1
	lowerBits = 10 // of the second word
)

// state returns the words at a ref, with the capacity of the record, and their limit. If they are
// joined, the result is a copy, valid until the next call.
func (w *wide) state(r slab.Ref) (words []int64, limit weir.Limit) {
	rec := w.slabs.Record(r)
	limit = w.limits.list[rec[0]>>32].limit
	if rec[0]&joined != 0 {
		w.two = [2]int64{rec[1] >> lowerBits, rec[1] & (1<<lowerBits - 1)}
		return w.two[:], limit
	}
	return rec[1 : 1+rec[0]&lengthOf], limit
}

// isJoined reports whether the words at a ref are in one, so that put has to write changes.
func (w *wide) isJoined(r slab.Ref) bool { return w.slabs.Record(r)[0]&joined != 0 }

// length returns the number of words that a record of a limit needs for words.
func length(limit weir.Limit, words []int64) int {
	if len(words) == 2 && !limit.Spec().Rule.Variable() &&
		uint64(words[0]) < 1<<(63-lowerBits) && uint64(words[1]) < 1<<lowerBits {
		return 1
	}
	return len(words)
}

// write writes words of a limit, which need n words, to a record.
func write(rec []int64, index int64, words []int64, n int) {
	if n < len(words) {
		rec[0], rec[1] = index<<32|joined, words[0]<<lowerBits|words[1]
		return
	}
	rec[0] = index<<32 | int64(n)
	if n > 0 && &rec[1] != &words[0] {
		copy(rec[1:], words)
	}
}

// put writes words to the record r, or to another one if its size does not fit, and
// returns which. The words may be those of the record itself. It does not change the
// limit.
func (w *wide) put(r slab.Ref, words []int64) slab.Ref {
	index := w.slabs.Record(r)[0] >> 32
	n, to := length(w.limits.list[index].limit, words), r
	if size := fit(r, n); size != r.Size() {
		to = w.slabs.Alloc(size)
	}
	write(w.slabs.Record(to), index, words, n)
	if to != r {
		w.slabs.Release(r)
	}
	return to
}

// fit returns the size of the record for n words that are in r. They stay unless they
// need more room, or less than half of it.
func fit(r slab.Ref, n int) int {
	if size := slab.SizeOf(n); size > r.Size() || size < r.Size()-2 {
		return size
	}
	return r.Size()
}

// label makes limit that of a record.
func (w *wide) label(r slab.Ref, limit weir.Limit) {
	rec := w.slabs.Record(r)
	if old := uint32(rec[0] >> 32); w.limits.list[old].limit.Spec().ID != limit.Spec().ID {
		rec[0] = int64(w.limits.retain(limit))<<32 | rec[0]&(1<<32-1)
		w.limits.release(old)
	}
}

// sameState reports whether a state under one limit is that under the other, word for word.
func sameState(l, m weir.Limit) bool {
	x, y := l.Spec(), m.Spec()
	return x.StateID == y.StateID && (x.ID == y.ID || algo.SameState(x.Rule, y.Rule))
}

// keep makes a record of words.
func (w *wide) keep(limit weir.Limit, words []int64) slab.Ref {
	n := length(limit, words)
	r := w.slabs.Alloc(slab.SizeOf(n))
	write(w.slabs.Record(r), int64(w.limits.retain(limit)), words, n)
	return r
}

// drop frees a record.
func (w *wide) drop(r slab.Ref) {
	w.limits.release(uint32(w.slabs.Record(r)[0] >> 32))
	w.slabs.Release(r)
}

// weight returns how many keys of MaxKeys a record of a size counts as.
func weight(size int) int64 { return max(1, int64(slab.CapOf(size)/wordsPerKey)) }

// wordsPerKey is the length of a state above which it counts as more than one key.
const wordsPerKey = 32

// A limits is the limits of a shard's records, with the number of records of each.
type limits struct {
	list  []counted
	byID  map[uint64]uint32
	holes []uint32
}

type counted struct {
	limit weir.Limit
	n     int
}

// retain returns the index of a limit, for one more record.
func (l *limits) retain(limit weir.Limit) uint32 {
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

// release ends one use of a limit.
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
