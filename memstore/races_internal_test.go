package memstore

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A lone key is one in a store of one shard, with a bucket that one token drains
// and ten seconds fill.
type loneKey struct {
	s    *Store
	sh   *shard
	now  int64
	hash uint64
	r    weir.Request
}

func newLoneKey(t *testing.T, snapshot string) *loneKey {
	t.Helper()
	k := &loneKey{now: 1_000_000, r: weir.Request{Key: "k", Limit: weir.MustLimit("1/10s"), N: 1}}
	k.open(t, snapshot)
	return k
}

func (k *loneKey) open(t *testing.T, snapshot string) {
	t.Helper()
	s, err := New(Config{MaxKeys: fewKeys, Clock: func() int64 { return k.now }, Snapshot: snapshot})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k.s, k.sh, k.hash = s, &s.shards[0], stateHash(s.hash.sum(k.r.Key), k.r.Limit)
}

func (k *loneKey) do(t *testing.T, verb weir.Verb, ttl time.Duration) weir.Decision {
	t.Helper()
	r := k.r
	r.Verb, r.ID, r.TTL = verb, "id", ttl
	d, err := k.s.Do(context.Background(), r)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return d
}

func (k *loneKey) entry() *table.Entry { return k.sh.narrow.Load().Find(k.hash) }

// forget drops the key, which is as never used, and its entry.
func (k *loneKey) forget(t *testing.T) {
	t.Helper()
	k.sh.mu.Lock()
	defer k.sh.mu.Unlock()
	steps := sweepSteps
	k.s.sweepShard(k.sh, k.now, &steps)
	k.sh.narrow.Store(k.sh.narrow.Load().Moved())
	if k.entry() != nil {
		t.Fatal("the key is still known")
	}
}

// TestOvertakenByDrop checks a decision that read the clock before another one dropped
// the key as if never used. It does not use its earlier instant: the key would be
// refilled twice for the same time.
func TestOvertakenByDrop(t *testing.T) {
	k := newLoneKey(t, "")
	k.do(t, weir.Take, 0)
	early := k.now + 5_000_000
	k.now += 10_000_000
	k.forget(t)
	var d weir.Decision
	if !k.s.locked(narrow(k.r.Limit), &k.r, k.hash, early, &d) || !d.OK || d.At.UnixMicro() != k.now {
		t.Errorf("overtaken: %+v, want it decided at %d", d, k.now)
	}
	if d := k.do(t, weir.Take, 0); d.OK || d.RetryAfter != 10*time.Second {
		t.Errorf("after that: %+v, want a denial for 10s", d)
	}
}

// TestHoldOutlivesState checks that a reservation that outlives what it charged is not
// given back to those who come when its key has been dropped.
func TestHoldOutlivesState(t *testing.T) {
	k := newLoneKey(t, "")
	k.do(t, weir.Reserve, 15*time.Second)
	k.now += 10_000_000
	k.forget(t)
	k.now += 6_000_000
	for i, want := range []bool{true, false, false} {
		if d := k.do(t, weir.Take, 0); d.OK != want {
			t.Errorf("Take %d: %+v, want OK %t", i, d, want)
		}
	}
}

// TestSweeperOvertaken checks that a sweeper does not drop a key that is charged after
// the sweeper found it as if never used. The charge would be lost.
func TestSweeperOvertaken(t *testing.T) {
	k := newLoneKey(t, "")
	k.do(t, weir.Take, 0)
	k.now += 10_000_000
	e := k.entry()
	seen := e.Word.Load()
	k.do(t, weir.Take, 0)
	k.sh.mu.Lock()
	if k.s.dropWord(k.sh, e, seen) {
		t.Error("a key that is in use was dropped")
	}
	k.sh.mu.Unlock()
	if d := k.do(t, weir.Take, 0); d.OK || k.s.Stats().Keys != 1 {
		t.Errorf("%+v of %d keys, want a denial of 1", d, k.s.Stats().Keys)
	}
}

// TestPinned checks that a key is pinned as long as it has reservations, and no longer;
// also one that comes from a snapshot, and one that has been dropped meanwhile.
func TestPinned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	k := newLoneKey(t, path)
	pinned := func(when string, want bool) {
		t.Helper()
		if w := k.entry().Word.Load(); w == dropped || w&pin != 0 != want {
			t.Errorf("%s: the word is %x, want it pinned: %t", when, w, want)
		}
	}
	k.do(t, weir.Charge, 0)
	pinned("charged", false)
	k.do(t, weir.Reset, 0)
	k.do(t, weir.Reserve, 15*time.Second)
	pinned("reserved", true)
	k.do(t, weir.Take, 0)
	k.do(t, weir.Charge, 0)
	pinned("charged beside that", true)
	k.do(t, weir.Return, 0)

	if err := k.s.Close(); err != nil {
		t.Fatal(err)
	}
	k.open(t, path)
	pinned("loaded", true)

	k.now += 10_000_000
	k.forget(t)
	k.do(t, weir.Take, 0)
	pinned("known again", true)

	k.now += 5_000_000 // the reservation runs out; the key owes half a token
	if d := k.do(t, weir.Take, 0); !d.OK {
		t.Errorf("after the reservation ran out: %+v, want what it gave back", d)
	}
	pinned("after that", false)
}

// TestOvertakenByClose checks that a request that began before Close, and ends after it,
// returns no charge that the snapshot lacks.
func TestOvertakenByClose(t *testing.T) {
	for _, known := range []bool{false, true} {
		k := newLoneKey(t, filepath.Join(t.TempDir(), "weir.snapshot"))
		wide := k.r
		wide.Limit = weir.MustLimit("9/10s sliding_window")
		wideHash := stateHash(k.s.hash.sum(wide.Key), wide.Limit)
		if known {
			k.do(t, weir.Charge, 0)
			if _, err := k.s.Do(context.Background(), wide); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.s.Close(); err != nil {
			t.Fatal(err)
		}
		var d weir.Decision
		bucket := narrow(k.r.Limit)
		if k.s.narrow(bucket, &k.r, k.hash, k.now, &d) || k.s.locked(bucket, &k.r, k.hash, k.now, &d) {
			t.Errorf("a bucket, known before: %t: %+v after the snapshot, want no decision", known, d)
		}
		if k.s.wide(wide.Limit.Spec().Rule, &wide, wideHash, k.now, &d) {
			t.Errorf("a window, known before: %t: %+v after the snapshot, want no decision", known, d)
		}
		if _, err := k.s.single(k.r, k.now); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("known before: %t: %v after the snapshot, want ErrClosed", known, err)
		}
	}
}

// TestAddedAfterMove checks that a batch adds the state of a key whose dropped entry is in a table
// that the key before it replaces. The charge would be lost with that table.
func TestAddedAfterMove(t *testing.T) {
	for _, text := range []string{"2/10s", "2/10s fixed_window", "2/10s sliding_window"} {
		moved := false
		for fill := range 16 { // one of them makes the table full
			k := newLoneKey(t, "")
			k.r.Limit = weir.MustLimit(text)
			k.do(t, weir.Take, 0)
			k.do(t, weir.Reset, 0)
			ask := func(verb weir.Verb, keys ...string) []weir.Decision {
				var rs []weir.Request
				for _, key := range keys {
					rs = append(rs, weir.Request{Verb: verb, Key: key, Limit: k.r.Limit, N: 1})
				}
				ds := make([]weir.Decision, len(rs))
				if _, err := k.s.DoAll(t.Context(), rs, ds); err != nil {
					t.Fatal(err)
				}
				return ds
			}
			for i := range fill {
				ask(weir.Take, "other "+strconv.Itoa(i))
			}
			before, wide := k.sh.narrow.Load(), k.sh.wide.Table
			ask(weir.Take, "k", "new 1", "new 2", "new 3")
			moved = moved || before != k.sh.narrow.Load() || wide != k.sh.wide.Table
			if d := ask(weir.Peek, "k")[0]; d.Remaining != 1 {
				t.Errorf("%s, %d other keys: %d remaining after a charge, want 1", text, fill, d.Remaining)
			}
		}
		if !moved {
			t.Errorf("%s: no table moved", text)
		}
	}
}

// TestCounts checks fixed windows with more tokens than a word has: by Do and DoAll, with
// reservations, over a restart, and when they end.
func TestCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	k := newLoneKey(t, path)
	k.r.Limit = weir.MustLimit("5000/10s fixed_window")
	remain := func(when string, want int64, counts int) {
		t.Helper()
		r := k.r
		r.Verb = weir.Peek
		d, err := k.s.Do(t.Context(), r)
		if err != nil || d.Remaining != want || len(k.sh.counts) != counts {
			t.Errorf("%s: %d remaining, %v, with %d counts, want %d with %d", when, d.Remaining, err, len(k.sh.counts), want, counts)
		}
	}
	all := func(n int64) {
		t.Helper()
		r := k.r
		r.N = n
		if ok, err := k.s.DoAll(t.Context(), []weir.Request{r}, make([]weir.Decision, 1)); !ok || err != nil {
			t.Fatalf("DoAll of %d = %t, %v", n, ok, err)
		}
	}
	k.do(t, weir.Take, 0)
	k.r.N = maxUnits - 2
	k.do(t, weir.Take, 0)
	remain("the most that fit", 5000-maxUnits+1, 0)
	k.r.N = 1
	k.do(t, weir.Take, 0)
	remain("one more", 5000-maxUnits, 1)
	all(1)
	k.r.N = 2
	k.do(t, weir.Return, 0)
	remain("returned", 5000-maxUnits+1, 0)
	k.r.N = 500
	k.do(t, weir.Reserve, 5*time.Second)
	remain("reserved", 5000-maxUnits-499, 1)
	if err := k.s.Close(); err != nil {
		t.Fatal(err)
	}
	k.open(t, path)
	k.hash = stateHash(k.s.hash.sum(k.r.Key), k.r.Limit)
	remain("after a restart", 5000-maxUnits-499, 1)
	k.now += 5_000_000
	remain("after the reservation", 5000-maxUnits+1, 0)
	all(3000)
	remain("filled again", 2000-maxUnits+1, 1)
	if w := k.entry().Word.Load(); w&pin == 0 {
		t.Errorf("the word %x of a count is not pinned", w)
	}
	k.now += 4_999_999
	if sh := k.sh; k.s.dropNarrow(sh, k.entry(), k.now) != k.now+1 {
		t.Error("the state is dropped at the last instant of the window")
	}
	k.now++
	remain("in the next window", 5000, 1)
	k.forget(t)
	remain("forgotten", 5000, 0)
}
