package memstore

// Wide states, those that don't fit a word, lie in slabs: per shard and size a
// list of chunks without pointers, each cut into records of that size. A record
// is a header and the words of the state. A state that grows or shrinks much moves
// to another size.
//
// Records that were given back are used again before new ones are cut. A chunk
// of one large record is given back with it, and all chunks of a size with its
// last record.
type slabs [sizes]*slab // nil if it has no records

type slab struct {
	chunks [][]int64
	live   int      // records in use
	cut    int      // records cut from the chunks so far
	holes  []uint32 // of those, the ones not in use
}

// A ref is where a record lies: its size above, its index below.
type ref uint64

const (
	refBits = 32

	// chunkWords is the length of a chunk, unless one record is longer than that.
	chunkWords = 128

	// sizes are 2, 3, 4, 6, 8, 12, … up to 3·2^23 words.
	sizes = 48
)

func (r ref) size() int { return int(r >> refBits) }
func (r ref) index() (i, per int) {
	return int(r & (1<<refBits - 1)), perChunk(r.size())
}

// capOf is the number of words that a record of a size has room for.
func capOf(size int) int { return (2 + size&1) << (size / 2) }

// sizeOf is the smallest size with room for n words.
func sizeOf(n int) (size int) {
	for capOf(size) < n {
		size++
	}
	return size
}

func perChunk(size int) int { return max(1, chunkWords/(capOf(size)+1)) }

// record is the header and the words at r.
func (s *slabs) record(r ref) []int64 {
	i, per := r.index()
	n := capOf(r.size()) + 1
	at := i % per * n
	return s[r.size()].chunks[i/per][at : at+n : at+n]
}

// alloc is a record of a size. Its content is undefined.
func (s *slabs) alloc(size int) ref {
	if s[size] == nil {
		s[size] = new(slab)
	}
	b, per := s[size], perChunk(size)
	b.live++
	i := b.cut
	if last := len(b.holes) - 1; last >= 0 {
		i = int(b.holes[last])
		b.holes = b.holes[:last]
	} else {
		b.cut++
	}
	if i/per == len(b.chunks) {
		b.chunks = append(b.chunks, nil)
	}
	if b.chunks[i/per] == nil {
		b.chunks[i/per] = make([]int64, per*(capOf(size)+1))
	}
	return ref(size)<<refBits | ref(i)
}

// release gives the record at r back.
func (s *slabs) release(r ref) {
	b := s[r.size()]
	if b.live--; b.live == 0 {
		s[r.size()] = nil
		return
	}
	i, per := r.index()
	if per == 1 {
		b.chunks[i] = nil
	}
	b.holes = append(b.holes, uint32(i))
}
