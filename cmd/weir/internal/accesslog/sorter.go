package accesslog

import (
	"cmp"
	"slices"
	"time"
)

// A Sorter restores the order of arrival of entries that are up to Window late. It also merges
// the lines of the decision log that belong to one request.
type Sorter struct {
	// Late counts the entries that came too late, and were left out.
	Late int

	heap    []sorted
	n       uint64
	newest  int64
	emitted int64
	next    Entry // waits for further lines of its request
	has     bool
	names   []string // of the policies that next has
}

// Window is the largest difference between the order of a log and that of arrival.
const Window = 60 * time.Second

// maxHeld bounds the memory of a Sorter. More entries within Window are put out earlier.
const maxHeld = 250_000

type sorted struct {
	Entry
	n uint64
}

// Add adds an entry, and calls emit for those that no later entry can precede.
func (s *Sorter) Add(e *Entry, emit func(*Entry)) {
	if e.At < s.emitted {
		s.Late++
		return
	}
	s.n++
	s.push(sorted{*e, s.n})
	s.newest = max(s.newest, e.At)
	for len(s.heap) > 0 && (s.heap[0].At <= s.newest-Window.Microseconds() || len(s.heap) > maxHeld) {
		s.merge(s.pop(), emit)
	}
}

// Flush calls emit for all remaining entries.
func (s *Sorter) Flush(emit func(*Entry)) {
	for len(s.heap) > 0 {
		s.merge(s.pop(), emit)
	}
	if s.has {
		s.has = false
		emit(&s.next)
	}
}

// merge joins the lines of one request, which have the same instant and different policies.
func (s *Sorter) merge(e Entry, emit func(*Entry)) {
	s.emitted = e.At
	if s.has && s.same(&e) {
		s.names = append(s.names, e.Policy)
		s.next.Status, s.next.Key = max(s.next.Status, e.Status), cmp.Or(s.next.Key, e.Key)
		if !s.next.Client.IsValid() {
			s.next.Client = e.Client
		}
		return
	}
	if s.has {
		s.has = false
		emit(&s.next)
	}
	if e.Policy == "" {
		emit(&e)
		return
	}
	s.next, s.has, s.names = e, true, append(s.names[:0], e.Policy)
}

// same reports whether e is a further line of the request of next.
func (s *Sorter) same(e *Entry) bool {
	n := &s.next
	return e.Policy != "" && e.At == n.At && e.Method == n.Method && e.Path == n.Path && !slices.Contains(s.names, e.Policy) &&
		(e.Client == n.Client || !e.Client.IsValid() || !n.Client.IsValid())
}

func (s *Sorter) less(i, k int) bool {
	a, b := &s.heap[i], &s.heap[k]
	return a.At < b.At || a.At == b.At && a.n < b.n
}

// push adds to the heap, as container/heap does, but without an allocation for each entry.
func (s *Sorter) push(x sorted) {
	s.heap = append(s.heap, x)
	for i := len(s.heap) - 1; i > 0 && s.less(i, (i-1)/2); i = (i - 1) / 2 {
		s.heap[i], s.heap[(i-1)/2] = s.heap[(i-1)/2], s.heap[i]
	}
}

// pop removes the first entry.
func (s *Sorter) pop() Entry {
	top, last := s.heap[0].Entry, len(s.heap)-1
	s.heap[0] = s.heap[last]
	s.heap[last] = sorted{}
	s.heap = s.heap[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// A Spacer spaces the entries of a second evenly, where the log has whole seconds only.
type Spacer struct {
	// Emit receives an entry and its instant in µs.
	Emit func(e *Entry, at int64)

	second []Entry
}

// Add adds an entry, in order.
func (s *Spacer) Add(e *Entry) {
	if len(s.second) > 0 && (!e.Coarse || e.At != s.second[0].At) {
		s.Flush()
	}
	if e.Coarse {
		s.second = append(s.second, *e)
		return
	}
	s.Emit(e, e.At)
}

// Flush emits the remaining entries.
func (s *Spacer) Flush() {
	for i := range s.second {
		s.Emit(&s.second[i], s.second[i].At+int64(i)*1e6/int64(len(s.second)))
	}
	s.second = s.second[:0]
}
