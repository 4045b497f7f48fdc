package memstore

import (
	"cmp"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A together is a txn of Takes on different states that exist and fit a word: it needs no copies,
// and has nothing to undo. It follows the protocol of [txn]. Its members are in the order of their
// hashes.
type together []member

// A member is a state in a together.
type member struct {
	hashed
	sh    *shard
	step  stepper
	entry *table.Entry // nil until its word is pinned
	word  uint64       // without the pin
	next  uint64       // the word if all requests are admitted
}

// A hashed is the hash of a request. It is sorted before its member is made, because moving pointers
// costs more.
type hashed struct {
	hash    uint64
	request int
}

// fewTogether is the largest number of requests whose members are on the stack. Those of more are in
// a pooled many.
const fewTogether = 8

type many struct {
	hashes  []hashed
	members together
}

// decideTogether decides requests as a txn does. It returns decided false, without a change, if
// only a txn can decide.
func decideTogether(s *Store, rs []weir.Request, ds []weir.Decision, now int64) (ok, decided bool) {
	if len(rs) <= fewTogether {
		var few [fewTogether]member
		t := together(few[:len(rs)])
		if !t.gatherFew(s, rs) {
			return false, false
		}
		return t.decide(s, rs, ds, now)
	}
	for i := range rs {
		if stepOf(&rs[i]) == nil {
			return false, false
		}
	}
	m := s.many.Get().(*many)
	m.hashes, m.members = slices.Grow(m.hashes[:0], len(rs))[:len(rs)], slices.Grow(m.members[:0], len(rs))[:len(rs)]
	m.gather(s, rs)
	ok, decided = m.members.decide(s, rs, ds, now)
	clear(m.members)
	s.many.Put(m)
	return ok, decided
}

// stepOf returns the rule of a request, or nil if it needs a txn.
func stepOf(r *weir.Request) stepper {
	if r.Verb != weir.Take || len(r.From) > 0 {
		return nil
	}
	return narrow(r.Limit)
}

func (t together) decide(s *Store, rs []weir.Request, ds []weir.Decision, now int64) (ok, decided bool) {
	now = t.lock(s, now)
	defer t.unlock()
	if s.closing.Load() || !t.pin() {
		return false, false
	}
	ok = true
	for i := range t {
		m := &t[i]
		r := &rs[m.request]
		us, rem := unpack(m.word)
		us, rem, res := m.step.Step(us, rem, algo.Ask{Now: now, N: r.N})
		if rem >= maxUnits {
			return false, false
		}
		m.next = m.word
		if r.N > 0 {
			m.next = packed(us, rem, now)
		}
		ok = ok && res.OK
		r.Limit.Spec().Fill(&ds[m.request], &res, now)
	}
	if ok {
		for i := range t {
			t[i].word = t[i].next
		}
	}
	return ok, true
}

// gatherFew makes the members of the requests. It returns false if one needs a txn.
func (t together) gatherFew(s *Store, rs []weir.Request) bool {
	var sum uint64
	for i := range rs {
		r := &rs[i]
		step := stepOf(r)
		if step == nil {
			return false
		}
		if i == 0 || r.Key != rs[i-1].Key {
			sum = s.hash.sum(r.Key)
		}
		hash, at := stateHash(sum, r.Limit), i
		for ; at > 0 && t[at-1].hash > hash; at-- {
			t[at] = t[at-1]
		}
		t[at] = member{hashed: hashed{hash, i}, step: step, sh: s.shard(hash)}
	}
	return true
}

// gather makes the members of the requests, of which none needs a txn.
func (m *many) gather(s *Store, rs []weir.Request) {
	var sum uint64
	for i := range rs {
		if r := &rs[i]; i == 0 || r.Key != rs[i-1].Key {
			sum = s.hash.sum(r.Key)
		}
		m.hashes[i] = hashed{stateHash(sum, rs[i].Limit), i}
	}
	slices.SortFunc(m.hashes, func(a, b hashed) int { return cmp.Compare(a.hash, b.hash) })
	for i, h := range m.hashes {
		m.members[i] = member{hashed: h, step: stepOf(&rs[h.request]), sh: s.shard(h.hash)}
	}
}

// lock locks the shards, and returns the instant at which all of them decide.
func (t together) lock(s *Store, now int64) int64 {
	for i := range t {
		if sh := t[i].sh; t.first(i) {
			sh.mu.Lock()
			now = max(now, sh.latest)
		}
	}
	for i := range t {
		if t.first(i) {
			s.beginAt(t[i].sh, now)
		}
	}
	return now
}

// first reports whether a member is the first one of its shard.
func (t together) first(i int) bool { return i == 0 || t[i].sh != t[i-1].sh }

// pin pins the words. It returns false if there is a state that does not exist, is that of two
// requests, or has reservations or a count.
func (t together) pin() bool {
	for i := range t {
		m := &t[i]
		e := m.sh.narrow.Load().Find(m.hash)
		if e == nil {
			return false
		}
		for m.entry == nil {
			if m.word = e.Word.Load(); m.word&pin != 0 {
				return false
			}
			if e.Word.CompareAndSwap(m.word, m.word|pin) {
				m.entry = e
			}
		}
	}
	return true
}

// unlock writes and unpins the words, and unlocks the shards.
func (t together) unlock() {
	for i := range t {
		if m := &t[i]; m.entry != nil {
			m.entry.Word.Store(m.word)
		}
	}
	for i := range t {
		if t.first(i) {
			t[i].sh.mu.Unlock()
		}
	}
}
