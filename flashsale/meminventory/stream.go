package meminventory

import (
	"slices"

	"github.com/floodweir/weir/flashsale/sale"
)

// stream is the stream of a sale at one epoch, as it is in the journal. One goroutine uses it.
type stream struct {
	entries map[string]*entry // unacknowledged entries by ID
	fresh   []*entry          // never delivered, the oldest first; some may be acknowledged
	busy    []*entry          // delivered, the earliest delivery first; some may be acknowledged
	due     []*entry          // to deliver again, the oldest first; some may be acknowledged
	seq     int64
	reload  bool          // read the journal before the next delivery
	wake    chan struct{} // closed by notify
}

type entry struct {
	sale.Entry
	seq   int64
	since int64 // time of the last delivery, in microseconds
	done  bool
}

func newStream() *stream {
	return &stream{entries: make(map[string]*entry), wake: make(chan struct{})}
}

// add appends an entry, unless the stream has it already.
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

// notify wakes the waiting workers.
func (s *stream) notify() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// next delivers up to max entries: first those that a worker has had for redeliver, then new
// ones. Entries are delivered in order, so the former are older.
func (s *stream) next(max int, now, redeliver int64) []sale.Entry {
	n := len(s.due)
	for len(s.busy) > 0 && (s.busy[0].done || now-s.busy[0].since >= redeliver) {
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

// ack removes entries.
func (s *stream) ack(ids []string) {
	for _, id := range ids {
		if e := s.entries[id]; e != nil {
			e.done = true
			delete(s.entries, id)
		}
	}
	// next drops acknowledged entries at the front only, so that one slow worker could keep
	// all later entries in busy.
	if len(s.busy) > 2*len(s.entries)+64 {
		s.busy = slices.DeleteFunc(s.busy, func(e *entry) bool { return e.done })
	}
}
