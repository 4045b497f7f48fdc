package memstore

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// An interrupted stepper lets another decision run between the load of a word and its
// compare-and-swap. What runs in between is one step to both, so these are all orders of
// the two.
type interrupted struct {
	stepper
	between func()
	steps   *int
}

func (b *interrupted) Step(us, rem int64, a algo.Ask) (int64, int64, algo.Result) {
	if *b.steps++; *b.steps == 1 {
		b.between()
	}
	return b.stepper.Step(us, rem, a)
}

// TestNoLostUpdate checks that a decision does not overwrite a change that another one made
// to the same word after it was loaded.
func TestNoLostUpdate(t *testing.T) {
	for _, c := range []struct {
		name    string
		lock    bool // the first decision holds the lock, so the other one may not
		between func(k *loneKey)
		steps   int   // of the first decision
		left    int64 // of 10
	}{
		{"take", false, func(k *loneKey) { k.do(t, weir.Take, 0) }, 2, 7},
		{"take with the lock", true, func(k *loneKey) { k.lockFree(t, weir.Take) }, 2, 7},
		{"charge", false, func(k *loneKey) { k.do(t, weir.Charge, 0) }, 2, 7},
		{"return", false, func(k *loneKey) { k.do(t, weir.Return, 0) }, 2, 9},
		{"return with the lock", true, func(k *loneKey) { k.lockFree(t, weir.Return) }, 2, 9},
		{"peek", false, func(k *loneKey) { k.do(t, weir.Peek, 0) }, 1, 8},
		{"batch", false, func(k *loneKey) { k.batch(t, 1) }, 2, 7},
		{"batch that is denied", false, func(k *loneKey) { k.batch(t, 99) }, 1, 8},
		{"reset", false, func(k *loneKey) { k.do(t, weir.Reset, 0) }, 2, 9},
		{"reservation", false, func(k *loneKey) { k.do(t, weir.Reserve, time.Second) }, 2, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newLoneKey(t, "")
			k.r.Limit = weir.MustLimit("10/1000h")
			k.hash = stateHash(k.s.hash.sum(k.r.Key), k.r.Limit)
			k.do(t, weir.Take, 0) // 9 are left
			steps := 0
			b := &interrupted{narrow(k.r.Limit), func() { c.between(k) }, &steps}
			decide := k.s.narrow
			if c.lock {
				decide = k.s.locked
			}
			var d weir.Decision
			if !decide(b, &k.r, k.hash, k.now, &d) && (c.lock || !k.s.locked(b, &k.r, k.hash, k.now, &d)) {
				d = k.do(t, weir.Take, 0) // as Do goes on
			}
			if !d.OK || d.Remaining != c.left {
				t.Errorf("the first decision = %+v, want %d remaining", d, c.left)
			}
			if got := k.do(t, weir.Peek, 0); got.Remaining != c.left {
				t.Errorf("after both %d remain, want %d", got.Remaining, c.left)
			}
			if steps != c.steps {
				t.Errorf("the first decision read the word %d times, want %d", steps, c.steps)
			}
		})
	}
}

// lockFree decides without the lock, which the caller may hold.
func (k *loneKey) lockFree(t *testing.T, verb weir.Verb) {
	t.Helper()
	r := k.r
	r.Verb = verb
	var d weir.Decision
	if !k.s.narrow(narrow(r.Limit), &r, k.hash, k.now, &d) || !d.OK {
		t.Errorf("%s without the lock = %+v, want OK", verb, d)
	}
}

// batch takes n tokens in a batch with another key.
func (k *loneKey) batch(t *testing.T, n int64) {
	t.Helper()
	rs := []weir.Request{k.r, k.r}
	rs[0].N, rs[1].Key = n, "other"
	if ok, err := k.s.DoAll(t.Context(), rs, make([]weir.Decision, 2)); ok != (n == 1) || err != nil {
		t.Errorf("DoAll of %d = %t, %v", n, ok, err)
	}
}

// TestBatchLosesNoUpdate checks that no decision without the lock changes a word while a
// batch works on a copy of it: the batch would overwrite it.
func TestBatchLosesNoUpdate(t *testing.T) {
	k := newLoneKey(t, "")
	k.r.Limit = weir.MustLimit("10/1000h")
	k.hash = stateHash(k.s.hash.sum(k.r.Key), k.r.Limit)
	k.do(t, weir.Take, 0)
	for i, ok := range []bool{true, false} { // committed and abandoned
		tx := &txn{s: k.s, rs: []weir.Request{k.r}}
		if !ok {
			tx.rs[0].N = 99
		}
		tx.gather()
		tx.lock(k.now)
		tx.load()
		var d weir.Decision
		if k.s.narrow(narrow(k.r.Limit), &k.r, k.hash, k.now, &d) {
			t.Errorf("step %d: %+v while a batch works on the key, want no decision", i, d)
		}
		if err := tx.decide(0, &d); err != nil || d.OK != ok {
			t.Errorf("step %d: the batch decides %+v, %v, want OK %t", i, d, err, ok)
		}
		if ok {
			tx.commit()
		} else {
			tx.abandon()
		}
		tx.unlock()
		if d := k.do(t, weir.Take, 0); !d.OK || d.Remaining != int64(7-i) {
			t.Errorf("step %d: after the batch %+v, want %d remaining", i, d, 7-i)
		}
	}
}
