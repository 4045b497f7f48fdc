package meminventory

import (
	"slices"
	"sort"
)

// A line is who waits, in the order of rank. It is a list of sorted chunks, so that a place
// in the middle moves one chunk only, and counting who is before somebody looks at as many
// numbers as there are chunks.
type line struct {
	chunks [][]*person
	n      int
}

const chunkSize = 512

// chunk returns which chunk has the place of rank: the last one that begins at or before it.
func (l *line) chunk(rank int64) int {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i][0].rank > rank })
	return max(i-1, 0)
}

// find returns where rank is or would be in its chunk.
func find(c []*person, rank int64) (int, bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].rank >= rank })
	return i, i < len(c) && c[i].rank == rank
}

// has says whether rank is taken.
func (l *line) has(rank int64) bool {
	if l.n == 0 {
		return false
	}
	_, ok := find(l.chunks[l.chunk(rank)], rank)
	return ok
}

// add puts p at its rank, which must not be taken.
func (l *line) add(p *person) {
	l.n++
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, append(make([]*person, 0, chunkSize), p))
		return
	}
	i := l.chunk(p.rank)
	c := l.chunks[i]
	at, _ := find(c, p.rank)
	if len(c) < chunkSize {
		l.chunks[i] = slices.Insert(c, at, p)
		return
	}
	if i == len(l.chunks)-1 && at == len(c) {
		l.chunks = append(l.chunks, append(make([]*person, 0, chunkSize), p))
		return
	}
	half := len(c) / 2
	right := append(make([]*person, 0, chunkSize), c[half:]...)
	clear(c[half:])
	c = c[:half]
	if at <= half {
		c = slices.Insert(c, at, p)
	} else {
		right = slices.Insert(right, at-half, p)
	}
	l.chunks[i] = c
	l.chunks = slices.Insert(l.chunks, i+1, right)
}

// pop takes out the first, or returns nil.
func (l *line) pop() *person {
	if l.n == 0 {
		return nil
	}
	c := l.chunks[0]
	p := c[0]
	c[0] = nil
	if len(c) == 1 {
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	} else {
		l.chunks[0] = c[1:]
	}
	l.n--
	return p
}

// ahead counts who is before rank.
func (l *line) ahead(rank int64) int64 {
	if l.n == 0 {
		return 0
	}
	i := l.chunk(rank)
	n := 0
	for _, c := range l.chunks[:i] {
		n += len(c)
	}
	at, _ := find(l.chunks[i], rank)
	return int64(n + at)
}
