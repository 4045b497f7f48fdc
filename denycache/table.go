package denycache

import (
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// An entry is a denied call. It does not change.
type entry struct {
	hash       uint64
	rs         []weir.Request
	ds         []weir.Decision
	seen       []version // of the states that denied
	start, end time.Duration
	until      time.Duration // the store may admit the call from then on
	probes     *probes       // shared with the former and later entries of the call
	admitted   uint32        // admissions of the probes until then
}

// entry returns an entry of a denied call, or nil if it cannot be repeated.
func (s *Store) entry(h uint64, rs []weir.Request, ds []weir.Decision, seen []version, start, end time.Duration) *entry {
	var retry time.Duration
	var states []version
	for i := range ds {
		d := &ds[i]
		switch {
		case d.Degraded != "" || !d.OK && lends(rs[i].Limit):
			return nil
		case !d.OK:
			states = append(states, seen[i])
			retry = max(retry, d.RetryAfter)
		}
	}
	// The store decided after start. So the denial holds until retry after start, and a
	// client that counts from end does not come too early. If that has passed already, or if
	// a state has changed, it holds for waiting requests only, or for none. It is stored
	// nevertheless, so that further requests wait for a probe.
	e := &entry{hash: h, seen: states, start: start, end: end, until: start + min(retry, s.maxAge)}
	e.rs, e.ds = slices.Clone(rs), slices.Clone(ds)
	for i := range e.rs { // the caller may use its memory again
		e.rs[i].Key, e.rs[i].ID = strings.Clone(e.rs[i].Key), ""
		e.rs[i].From = slices.Clone(e.rs[i].From)
	}
	return e
}

// is reports whether e is of the call rs.
func (e *entry) is(h uint64, rs []weir.Request) bool {
	if e.hash != h || len(e.rs) != len(rs) {
		return false
	}
	for i := range rs {
		a, b := &e.rs[i], &rs[i]
		if a.Key != b.Key || a.N != b.N || a.Verb != b.Verb || a.Carry != b.Carry ||
			!equal(a.Limit, b.Limit) || !slices.EqualFunc(a.From, b.From, equal) {
			return false
		}
	}
	return true
}

// equal reports whether two limits decide equally and by the same state.
func equal(a, b weir.Limit) bool {
	if a == b {
		return true
	}
	s, t := a.Spec(), b.Spec()
	return s.ID == t.ID && s.State == t.State && a.Equal(b)
}

// ways is the number of slots that may have an entry.
const ways = 8

// A table holds entries in sets of ways slots. It never blocks.
type table struct{ slots []atomic.Pointer[entry] }

func newTable(entries int) table {
	n := max(ways, 1<<bits.Len(uint(entries-1)))
	return table{make([]atomic.Pointer[entry], n)}
}

// set returns the slots for a hash.
func (t table) set(h uint64) []atomic.Pointer[entry] {
	at := (h >> 32 * ways) & uint64(len(t.slots)-1)
	return t.slots[at : at+ways]
}

// find returns the entry of the call rs with the hash h, or nil.
func (t table) find(h uint64, rs []weir.Request) *entry {
	set := t.set(h)
	for i := range set {
		if e := set[i].Load(); e != nil && e.is(h, rs) {
			return e
		}
	}
	return nil
}

// insert stores e in place of an earlier entry of the same call, or in an empty slot. Otherwise
// it replaces the entry that ends first, which may have ended.
func (t table) insert(e *entry) {
	set := t.set(e.hash)
	at, ends := 0, time.Duration(1<<63-1)
	for i := range set {
		old := set[i].Load()
		switch {
		case old == nil:
			if ends > -1 {
				at, ends = i, -1
			}
		case old.is(e.hash, e.rs):
			if old.start <= e.start {
				set[i].Store(e)
			}
			return
		case old.until < ends:
			at, ends = i, old.until
		}
	}
	set[at].Store(e)
}

// remove deletes an entry.
func (t table) remove(e *entry) {
	set := t.set(e.hash)
	for i := range set {
		set[i].CompareAndSwap(e, nil)
	}
}

// len returns the number of entries.
func (t table) len() (n int) {
	for i := range t.slots {
		if t.slots[i].Load() != nil {
			n++
		}
	}
	return n
}

// lends reports whether a limit may admit a request before its RetryAfter without a change that
// the cache sees: a slot is given back, or another tenant leaves tokens.
func lends(l weir.Limit) bool { return l.IsConcurrency() || l.Algorithm() == "tenant_bucket" }
