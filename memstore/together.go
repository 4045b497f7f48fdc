package memstore

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/table"
)

// maxTogether is the largest number of requests of a together.
const maxTogether = 8

// A together is a txn of Takes on states that exist and fit a word: it needs no copies, and has
// nothing to undo. It follows the protocol of [txn].
type together struct {
	members [maxTogether]member // by hash
	n       int
	pinned  int // members whose words are pinned
}

// A member is a state in a together.
type member struct {
	hash    uint64
	request int // its index
	sh      *shard
	step    stepper
	entry   *table.Entry
	word    uint64 // without the pin
}

// decide decides requests as a txn does. It returns decided false, without a change, if only a txn
// can decide.
func (t *together) decide(s *Store, rs []weir.Request, ds []weir.Decision, now int64) (ok, decided bool) {
	if !t.gather(s, rs) {
		return false, false
	}
	now = t.lock(s, now)
	if s.closing.Load() || !t.pin() {
		t.finish()
		return false, false
	}
	ok = true
	var words [maxTogether]uint64
	for i := range t.n {
		m := &t.members[i]
		r := &rs[m.request]
		us, rem := unpack(m.word)
		us, rem, res := m.step.Step(us, rem, algo.Ask{Now: now, N: r.N})
		words[i] = m.word
		if r.N > 0 {
			words[i] = packed(us, rem, now)
		}
		ok = ok && res.OK
		r.Limit.Spec().Fill(&ds[m.request], &res, now)
	}
	if ok {
		for i := range t.n {
			t.members[i].word = words[i]
		}
	}
	t.finish()
	return ok, true
}

// gather sorts the states of the requests. It returns false if there is one that needs a txn, or
// that two requests share.
func (t *together) gather(s *Store, rs []weir.Request) bool {
	if len(rs) > maxTogether {
		return false
	}
	var sum uint64
	for i := range rs {
		r := &rs[i]
		step := narrow(r.Limit)
		if step == nil || r.Verb != weir.Take || len(r.From) > 0 {
			return false
		}
		if i == 0 || r.Key != rs[i-1].Key {
			sum = s.hash.sum(r.Key)
		}
		m := member{hash: stateHash(sum, r.Limit), request: i, step: step}
		m.sh = s.shard(m.hash)
		at := i
		for ; at > 0 && t.members[at-1].hash >= m.hash; at-- {
			if t.members[at-1].hash == m.hash {
				return false
			}
			t.members[at] = t.members[at-1]
		}
		t.members[at] = m
	}
	t.n = len(rs)
	return true
}

// lock locks the shards, and returns the instant at which all of them decide.
func (t *together) lock(s *Store, now int64) int64 {
	for i := range t.n {
		if sh := t.members[i].sh; t.first(i) {
			sh.mu.Lock()
			now = max(now, sh.latest)
		}
	}
	for i := range t.n {
		if t.first(i) {
			s.beginAt(t.members[i].sh, now)
		}
	}
	return now
}

// first reports whether a member is the first one of its shard.
func (t *together) first(i int) bool { return i == 0 || t.members[i].sh != t.members[i-1].sh }

// pin pins the words. It returns false if there is a state that does not exist or has reservations.
func (t *together) pin() bool {
	for ; t.pinned < t.n; t.pinned++ {
		m := &t.members[t.pinned]
		if m.entry = m.sh.narrow.Load().Find(m.hash); m.entry == nil {
			return false
		}
		for {
			m.word = m.entry.Word.Load()
			if m.word&pin != 0 {
				return false
			}
			if m.entry.Word.CompareAndSwap(m.word, m.word|pin) {
				break
			}
		}
	}
	return true
}

// finish writes and unpins the words, and unlocks the shards.
func (t *together) finish() {
	for i := range t.pinned {
		t.members[i].entry.Word.Store(t.members[i].word)
	}
	for i := range t.n {
		if t.first(i) {
			t.members[i].sh.mu.Unlock()
		}
	}
}
