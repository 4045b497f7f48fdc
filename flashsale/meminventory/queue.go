package meminventory

import (
	"slices"
	"sort"
)

// queue holds the waiting users in the order of rank. It is a list of sorted chunks: inserting
// moves at most one chunk, and counting the users ahead adds one number per chunk.
type queue struct {
	chunks [][]*userState
	n      int
}

const chunkSize = 512

// chunk returns the index of the chunk for rank: the last one that begins at or before it.
func (q *queue) chunk(rank int64) int {
	i := sort.Search(len(q.chunks), func(i int) bool { return q.chunks[i][0].rank > rank })
	return max(i-1, 0)
}

// findRank returns the index of rank in its chunk, or where to insert it.
func findRank(c []*userState, rank int64) (int, bool) {
	i := sort.Search(len(c), func(i int) bool { return c[i].rank >= rank })
	return i, i < len(c) && c[i].rank == rank
}

// has reports whether rank is taken.
func (q *queue) has(rank int64) bool {
	if q.n == 0 {
		return false
	}
	_, ok := findRank(q.chunks[q.chunk(rank)], rank)
	return ok
}

// add inserts p at its rank, which must be free.
func (q *queue) add(p *userState) {
	q.n++
	if len(q.chunks) == 0 {
		q.chunks = append(q.chunks, append(make([]*userState, 0, chunkSize), p))
		return
	}
	i := q.chunk(p.rank)
	c := q.chunks[i]
	at, _ := findRank(c, p.rank)
	if len(c) < chunkSize {
		q.chunks[i] = slices.Insert(c, at, p)
		return
	}
	if i == len(q.chunks)-1 && at == len(c) {
		q.chunks = append(q.chunks, append(make([]*userState, 0, chunkSize), p))
		return
	}
	half := len(c) / 2
	right := append(make([]*userState, 0, chunkSize), c[half:]...)
	clear(c[half:])
	c = c[:half]
	if at <= half {
		c = slices.Insert(c, at, p)
	} else {
		right = slices.Insert(right, at-half, p)
	}
	q.chunks[i] = c
	q.chunks = slices.Insert(q.chunks, i+1, right)
}

// pop removes and returns the first user, or returns nil.
func (q *queue) pop() *userState {
	if q.n == 0 {
		return nil
	}
	c := q.chunks[0]
	p := c[0]
	c[0] = nil
	if len(c) == 1 {
		q.chunks[0] = nil
		q.chunks = q.chunks[1:]
	} else {
		q.chunks[0] = c[1:]
	}
	q.n--
	return p
}

// ahead returns the number of users before rank.
func (q *queue) ahead(rank int64) int64 {
	if q.n == 0 {
		return 0
	}
	i := q.chunk(rank)
	n := 0
	for _, c := range q.chunks[:i] {
		n += len(c)
	}
	at, _ := findRank(q.chunks[i], rank)
	return int64(n + at)
}
