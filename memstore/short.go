package memstore

import (
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A short decides Takes of one token under one limit, on states that exist and fit a word. It
// uses the words of the store itself, so other requests may use the same keys at any time.
type short struct {
	store   *Store
	bucket  *algo.TokenBucket // nil for a window
	rule    stepper
	stateID uint64 // of the limit
	prefix  string
	carries bool

	all atomic.Pointer[table.Entry] // of the key of Allow; nil until it has a state
}

// Short returns a short form of Do for Limiters: Takes of one token of keys with a prefix, under
// limit. Its methods report whether the token was taken. If decided is false, nothing has changed,
// and the caller calls Do. Allow is AllowKey of the key all. With carries, a request may have
// From. Short returns nil if limit has none, or if of is another store than s: a store that
// embeds s.
func (s *Store) Short(of weir.Store, limit weir.Limit, prefix string, carries bool) interface {
	Allow(all string) (ok, decided bool)
	AllowKey(key string) (ok, decided bool)
} {
	rule := narrow(limit)
	if rule == nil || !s.NeverWaits(of) {
		return nil
	}
	return &short{store: s, bucket: bucket(rule), rule: rule, stateID: limit.Spec().StateID, prefix: prefix, carries: carries}
}

// NeverWaits reports whether of is s itself, and so decides without waiting: it needs no deadline. A
// store that embeds s may wait.
func (s *Store) NeverWaits(of weir.Store) bool { return of == weir.Store(s) }

// bucket returns the arithmetic of a bucket, or nil.
func bucket(rule stepper) *algo.TokenBucket {
	switch b := rule.(type) {
	case *algo.TokenBucket:
		return b
	case *algo.LeakyBucket:
		return &b.TokenBucket // a queue delays, but admits the same requests
	}
	return nil
}

// Allow keeps the entry of its key. A state never moves to another entry of a table; if it moves to
// another table, its word in this one is dropped.
func (f *short) Allow(all string) (ok, decided bool) {
	var now int64 // first, so that the loads overlap with it
	if c := &f.store.clock; c.read == nil {
		now = c.running()
	} else {
		now = c.now()
	}
	e := f.all.Load()
	if e == nil {
		if e = f.find(all); e == nil {
			return false, false
		}
		f.all.Store(e)
	}
	if ok, decided = f.decide(e, now); !decided {
		f.all.Store(nil)
	}
	return ok, decided
}

func (f *short) AllowKey(key string) (ok, decided bool) {
	if key == "" || len(f.prefix)+len(key) > bounds.MaxKey {
		return false, false
	}
	now := f.store.clock.now()
	if e := f.find(key); e != nil {
		return f.decide(e, now)
	}
	return false, false
}

// find returns the entry of a key, or nil.
func (f *short) find(key string) *table.Entry {
	return f.store.narrows.find(nameOf(f.store.hash.joined(f.prefix, key), f.stateID))
}

// decide is [Store.narrow] for one token, without a Decision.
func (f *short) decide(e *table.Entry, now int64) (ok, decided bool) {
	if f.store.closing.Load() {
		return false, false
	}
	for {
		w := e.Word.Load()
		if w&pin != 0 || f.carries && w <= pack(now, 0) {
			return false, false
		}
		us, rem := unpack(w)
		if f.bucket != nil { // without an indirect call
			us, rem, ok = f.bucket.TakeOne(us, rem, now)
		} else if us, rem, ok = f.rule.TakeOne(us, rem, now); ok && rem >= maxUnits {
			return false, false
		}
		if !ok || e.Word.CompareAndSwap(w, pack(us, rem)) {
			return ok, true
		}
	}
}
