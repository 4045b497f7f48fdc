package meminventory

import (
	"slices"

	"github.com/floodweir/weir/flashsale/sale"
)

// A stream of a sale at one epoch: what is in the journal. One goroutine uses it.
type stream struct {
	entries map[string]*entry // those that are not done
	fresh   []*entry          // never delivered, the oldest first; some may be done
	busy    []*entry          // delivered, the longest ago first; some may be done
	due     []*entry          // to be delivered again, the oldest first; some may be done
	seq     int64
	reload  bool          // the journal may have more
	wake    chan struct{} // closed when there is something new
}

type entry struct {
	sale.Entry
	seq   int64
	since int64 // microseconds: when it was delivered last
	done  bool
}

func newStream() *stream {
	return &stream{entries: make(map[string]*entry), wake: make(chan struct{})}
}

// add appends what is not in the stream yet.
func (s *stream) add(e sale.Entry) {
	if s.entries[e.ID] != nil {
		return
	}
	s.seq++
	n := &entry{Entry: e, seq: s.seq}
	n.Deliveries = 0
	s.entries[e.ID] = n
	s.fresh = append(s.fresh, n)
}

// rouse wakes those who wait.
func (s *stream) rouse() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// next delivers up to max entries: those whose worker has been busy for patience, then those
// that are new. Entries are delivered in their order, so the former are older.
func (s *stream) next(max int, now, patience int64) []sale.Entry {
	n := len(s.due)
	for len(s.busy) > 0 && (s.busy[0].done || now-s.busy[0].since >= patience) {
		s.due = append(s.due, s.busy[0])
		s.busy[0] = nil
		s.busy = s.busy[1:]
	}
	if len(s.due) > n {
		slices.SortFunc(s.due, func(a, b *entry) int { return int(a.seq - b.seq) })
	}
	var out []*entry
	for _, from := range []*[]*entry{&s.due, &s.fresh} {
		for len(*from) > 0 && len(out) < max {
			if e := (*from)[0]; !e.done {
				out = append(out, e)
			}
			(*from)[0] = nil
			*from = (*from)[1:]
		}
	}
	if len(out) == 0 {
		return nil
	}
	es := make([]sale.Entry, len(out))
	for i, e := range out {
		e.since = now
		e.Deliveries++
		s.busy = append(s.busy, e)
		es[i] = e.Entry
	}
	return es
}

// done takes entries out.
func (s *stream) done(ids []string) {
	for _, id := range ids {
		if e := s.entries[id]; e != nil {
			e.done = true
			delete(s.entries, id)
		}
	}
	// What is done is dropped at the front only, so a slow worker's entry could keep all
	// that came after it.
	if len(s.busy) > 2*len(s.entries)+64 {
		s.busy = slices.DeleteFunc(s.busy, func(e *entry) bool { return e.done })
	}
}
