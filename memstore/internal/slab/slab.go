// Package slab keeps records of words without pointers. For each size it has a list of
// chunks, each divided into records of that size. A record is a header word and room
// for as many words as its size has.
//
// Freed records are used again before new ones are made. The chunk of a single large
// record is freed with it, and all chunks of a size with the last record.
package slab

// Slabs holds records. The zero value is empty. It is not safe for concurrent use.
type Slabs [sizes]*slab // nil if it has no records

type slab struct {
	chunks [][]int64
	live   int      // records in use
	cut    int      // records made of the chunks so far
	holes  []uint32 // the freed ones of those
}

// A Ref locates a record: its size in the upper bits, its index in the lower ones.
type Ref uint64

const (
	refBits = 32

	// chunkWords is the length of a chunk, unless one record is longer than that.
	chunkWords = 128

	// sizes are 1, 2, 3, 4, 6, 8, 12, … up to 3·2^23 words.
	sizes = 49
)

// Size returns the size of the record.
func (r Ref) Size() int { return int(r >> refBits) }

// index returns the index of the record among those of its size, and the number of
// records per chunk.
func (r Ref) index() (i, per int) {
	return int(r & (1<<refBits - 1)), perChunk(r.Size())
}

// CapOf returns the number of words of a record of a size.
func CapOf(size int) int {
	if size == 0 {
		return 1
	}
	return (2 + (size-1)&1) << ((size - 1) / 2)
}

// SizeOf returns the smallest size with room for n words.
func SizeOf(n int) (size int) {
	for CapOf(size) < n {
		size++
	}
	return size
}

func perChunk(size int) int { return max(1, chunkWords/(CapOf(size)+1)) }

// Record returns the header and the words at r.
func (s *Slabs) Record(r Ref) []int64 {
	i, per := r.index()
	n := CapOf(r.Size()) + 1
	at := i % per * n
	return s[r.Size()].chunks[i/per][at : at+n : at+n]
}

// Alloc returns a record of a size. Its content is undefined.
func (s *Slabs) Alloc(size int) Ref {
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
		b.chunks[i/per] = make([]int64, per*(CapOf(size)+1))
	}
	return Ref(size)<<refBits | Ref(i)
}

// Release frees the record at r.
func (s *Slabs) Release(r Ref) {
	b := s[r.Size()]
	if b.live--; b.live == 0 {
		s[r.Size()] = nil
		return
	}
	i, per := r.index()
	if per == 1 {
		b.chunks[i] = nil
	}
	b.holes = append(b.holes, uint32(i))
}
