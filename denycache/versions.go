package denycache

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/floodweir/weir"
)

// versions are the versions of states, by a hash of the state: the low half of a word counts
// requests that may shorten the wait of a denied key. States with the same hash share a word;
// that costs calls of the store, and nothing else. The high half is the limit of the last
// request, for states that several limits share (weir.Limit.Named).
type versions [1 << 13]atomic.Uint64

// A version is the version of a state at some time.
type version struct {
	at    uint32 // index in versions
	value uint64
	moved bool // the request changes the limit of the state
}

// current reports whether no state changed since its version was read.
func (s *Store) current(seen []version) bool {
	for i := range seen {
		if s.versions[seen[i].at].Load() != seen[i].value {
			return false
		}
	}
	return true
}

// state returns the index of the version of a state.
func (s *Store) state(key string, l weir.Limit) uint32 {
	return uint32(mix(maphash.String(s.seed, key)^l.Spec().StateID) % uint64(len(s.versions)))
}

// read appends the versions of the states of rs before a call of the store to seen. It returns them
// and the admissions of the probes; p is nil for a first call.
func (s *Store) read(seen []version, rs []weir.Request, p *probes) (_ []version, before uint32) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		before = p.total
	}
	for i := range rs {
		var v version
		v.at = s.state(rs[i].Key, rs[i].Limit)
		word := &s.versions[v.at]
		v.value = word.Load()
		spec := rs[i].Limit.Spec()
		for spec.Named && uint32(v.value>>32) != uint32(spec.ID) {
			next := spec.ID<<32 | uint64(uint32(v.value)+1)
			if word.CompareAndSwap(v.value, next) {
				v.value, v.moved = next, true
				break
			}
			v.value = word.Load()
		}
		seen = append(seen, v)
	}
	return seen, before
}

// written records a call of the store. It returns the versions and the admissions after it. A
// version that another request changed meanwhile is not current. Admissions of other probes do
// not count: if one came after a denial, then RetryAfter had passed.
func (s *Store) written(rs []weir.Request, p *probes, seen []version, before uint32, ok bool, err error) (_ []version, total uint32) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		seen = after(seen, p.total-before)
		if ok && err == nil {
			p.total++
		}
		total = p.total
	}
	for i := range seen {
		v := &seen[i]
		if ok || err != nil || v.moved {
			if next := s.versions[v.at].Add(1); next == v.value+1 {
				v.value = next
			}
		}
		s.carriedOver(&rs[i])
	}
	return seen, total
}

// holds reports whether no state of e has changed since, other than by admissions of its probes.
func (s *Store) holds(e *entry) bool {
	e.probes.mu.Lock()
	defer e.probes.mu.Unlock()
	return s.current(after(e.seen, e.probes.total-e.admitted))
}

// after returns the versions of the states of a call after that many admissions of equal calls.
func after(seen []version, admissions uint32) []version {
	if admissions == 0 {
		return seen
	}
	later := slices.Clone(seen)
	for i := range later {
		for j := range seen {
			if seen[j].at == seen[i].at {
				later[i].value += uint64(admissions)
			}
		}
	}
	return later
}

// changed records a call of the store with requests that are not repeatable.
func (s *Store) changed(rs []weir.Request, ok bool, err error) {
	for i := range rs {
		r := &rs[i]
		deniable := len(rs) > 1 || r.Verb <= weir.TakeUpTo || r.Verb == weir.Reserve
		if r.Verb == weir.Peek {
			continue
		}
		if !deniable || ok || err != nil || r.Limit.Spec().Named {
			s.versions[s.state(r.Key, r.Limit)].Add(1)
		}
		s.carriedOver(r) // also of a denied request
	}
}

// carriedOver records that a request may have moved the states of former limits.
func (s *Store) carriedOver(r *weir.Request) {
	own := r.Limit.Spec().StateID
	for _, l := range r.From {
		if l.Spec().StateID != own {
			s.versions[s.state(r.Key, l)].Add(1)
		}
	}
}
