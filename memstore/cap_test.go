//go:build !race

package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

var bothPaths = []string{"1/h", "1/h fixed_window"}

// TestFloodKeepsKeysWithDebt checks that a million new keys against a full store evict
// no key with debt and use no memory. Each of them gets the same error.
func TestFloodKeepsKeysWithDebt(t *testing.T) {
	const most = 10_000
	const flood = 1_000_000
	for _, text := range bothPaths {
		limit := weir.MustLimit(text)
		now := clockAt(begin)
		s := newStore(t, memstore.Config{MaxKeys: most, Clock: now.Load})
		for i := range most {
			take(t, s, "active "+strconv.Itoa(i), limit, 1)
		}
		before := heap()
		for i := range flood {
			_, err := s.Do(context.Background(), weir.Request{Key: "flood " + strconv.Itoa(i), Limit: limit, N: 1})
			if !errors.Is(err, weir.ErrFull) {
				t.Fatalf("%s: new key %d in a full store: %v, want ErrFull", limit, i, err)
			}
		}
		if grown := heap() - before; grown > 1<<20 {
			t.Errorf("%s: the flood left %d bytes behind, want at most %d", limit, grown, 1<<20)
		}
		for i := range most {
			if take(t, s, "active "+strconv.Itoa(i), limit, 1).OK {
				t.Fatalf("%s: key %d with debt was evicted", limit, i)
			}
		}
		if st := s.Stats(); st.Keys != most || st.Used != most || st.Refused != int64(flood) {
			t.Errorf("%s: %+v, want %d keys, %d refused", limit, st, most, flood)
		}
	}
}

// TestFloodOfShortLives checks that keys that expire need no more room than those in use
// at one time.
func TestFloodOfShortLives(t *testing.T) {
	const flood = 1_000_000
	for _, text := range []string{"10/s", "10/s fixed_window", "10/s sliding_log"} {
		limit := weir.MustLimit(text)
		now := clockAt(begin)
		s := newStore(t, memstore.Config{MaxKeys: 1 << 20, Clock: now.Load})
		before := heap()
		for i := range flood {
			take(t, s, strconv.Itoa(i), limit, 1)
			now.Add(1000) // so that 100 or 1000 owe at a time
		}
		if grown := heap() - before; grown > 3<<19 {
			t.Errorf("%s: %d bytes after %d keys that came and went, want at most %d", limit, grown, flood, 3<<19)
		}
	}
}

// TestFullStoreMakesRoom checks that in a full store a key that is as never used makes
// way, however few they are.
func TestFullStoreMakesRoom(t *testing.T) {
	for _, most := range []int{1, 2, 64, 65, 300} {
		for _, text := range bothPaths {
			hourly, daily := weir.MustLimit(text), weir.MustLimit("1/24h")
			now := clockAt(begin)
			s := newStore(t, memstore.Config{MaxKeys: most, Clock: now.Load})
			for i := range most - 1 {
				take(t, s, "daily "+strconv.Itoa(i), daily, 1)
			}
			for round := range 3 {
				take(t, s, fmt.Sprint("hourly ", round), hourly, 1)
				if _, err := s.Do(context.Background(), weir.Request{Key: "too many", Limit: hourly, N: 1}); !errors.Is(err, weir.ErrFull) {
					t.Fatalf("%d keys, %s, round %d: %v, want ErrFull", most, text, round, err)
				}
				now.Add(hour)
			}
		}
	}
}

// TestFullStoreAnswersQuestions checks that a full store decides requests that need no
// room.
func TestFullStoreAnswersQuestions(t *testing.T) {
	for _, text := range bothPaths {
		limit := weir.MustLimit(text)
		s := newStore(t, memstore.Config{MaxKeys: 1, Clock: clockAt(begin).Load})
		take(t, s, "active", limit, 1)
		for _, r := range []weir.Request{
			{Verb: weir.Peek, N: 1}, {Verb: weir.Take, N: 0}, {Verb: weir.Return, N: 1}, {Verb: weir.Reset},
		} {
			r.Key, r.Limit = "new", limit
			if d := do(t, s, r); !d.OK || d.Remaining != 1 {
				t.Errorf("%s: %s of a new key = %+v, want OK and 1 remaining", limit, r.Verb, d)
			}
		}
		if d := do(t, s, weir.Request{Verb: weir.Take, N: 2, Key: "new", Limit: limit}); d.OK || d.RetryAfter != weir.Never {
			t.Errorf("%s: Take above the capacity = %+v, want Never", limit, d)
		}
		do(t, s, weir.Request{Verb: weir.Reset, Key: "active", Limit: limit})
		if !take(t, s, "new", limit, 1).OK {
			t.Errorf("%s: after Reset there is no room", limit)
		}
	}
}

// TestShare checks that with Share new keys without room use one overflow bucket per
// limit, and keys with a state keep it.
func TestShare(t *testing.T) {
	for _, text := range []string{"3/h", "3/h fixed_window", "3/h sliding_log"} {
		limit, other := weir.MustLimit(text), weir.MustLimit("3/24h")
		now := clockAt(begin)
		s := newStore(t, memstore.Config{MaxKeys: 2, Full: memstore.Share, Clock: now.Load})
		take(t, s, "known", limit, 1)
		take(t, s, "known too", limit, 1)
		for i, want := range []bool{true, true, true, false, false} {
			if d := take(t, s, "new "+strconv.Itoa(i), limit, 1); d.OK != want {
				t.Errorf("%s: new key %d: OK %t, want %t", limit, i, d.OK, want)
			}
		}
		if d := do(t, s, weir.Request{Verb: weir.Peek, Key: "new", Limit: limit, N: 1}); d.OK {
			t.Errorf("%s: Peek of a new key = OK, want the result of Take", limit)
		}
		if !take(t, s, "new", other, 3).OK {
			t.Errorf("%s: another limit shares its state", limit)
		}
		if d := take(t, s, "known", limit, 2); !d.OK {
			t.Errorf("%s: the known key has no state of its own: %+v", limit, d)
		}
		_, err := s.Do(context.Background(), weir.Request{Verb: weir.Reserve, Key: "new", Limit: other, N: 1, ID: "i", TTL: time.Hour})
		if !errors.Is(err, weir.ErrFull) {
			t.Errorf("%s: Reserve of a new key = %v, want ErrFull", limit, err)
		}
		if st := s.Stats(); st.Keys != 4 || st.Shared != 7 || st.Refused != 1 {
			t.Errorf("%s: %+v, want 4 keys, 7 requests that shared, 1 refused", limit, st)
		}
		now.Add(2 * hour)
		if d := take(t, s, "new", limit, 1); !d.OK || d.Remaining != 2 {
			t.Errorf("%s: when there is room again: %+v, want a state of its own", limit, d)
		}
	}
}

// TestShareIsBounded checks that the number of overflow buckets is bounded, whatever the
// number of limits.
func TestShareIsBounded(t *testing.T) {
	s := newStore(t, memstore.Config{MaxKeys: 1, Full: memstore.Share, Clock: clockAt(begin).Load})
	take(t, s, "known", weir.MustLimit("1/24h"), 1)
	var err error
	n := 0
	for ; err == nil && n < 5000; n++ {
		l := weir.MustLimit(strconv.Itoa(n+1) + "/24h")
		_, err = s.Do(context.Background(), weir.Request{Key: "new", Limit: l, N: 1})
	}
	if !errors.Is(err, weir.ErrFull) || s.Stats().Used > 1+1024 {
		t.Errorf("after %d limits: %v and %+v, want ErrFull within 1024 shared states", n, err, s.Stats())
	}
}

// TestReservationsAreBounded checks that reservations are part of the cap, and leave it
// when they run out.
func TestReservationsAreBounded(t *testing.T) {
	limit := weir.MustLimit("1000/1000h") // owes for longer than a reservation lasts
	now := clockAt(begin)
	s := newStore(t, memstore.Config{MaxKeys: 100, Clock: now.Load})
	reserve := func(i int) error {
		r := weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 1, ID: strconv.Itoa(i), TTL: time.Minute}
		_, err := s.Do(context.Background(), r)
		return err
	}
	for i := range 99 {
		if err := reserve(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := reserve(99); !errors.Is(err, weir.ErrFull) {
		t.Errorf("reservation 100 beside its key = %v, want ErrFull", err)
	}
	if _, err := s.Do(context.Background(), weir.Request{Key: "other", Limit: limit, N: 1}); !errors.Is(err, weir.ErrFull) {
		t.Errorf("another key = %v, want ErrFull", err)
	}
	now.Add(60_000_000)
	if d := take(t, s, "other", limit, 1); !d.OK {
		t.Errorf("when they have run out: %+v, want room", d)
	}
	if st := s.Stats(); st.Reservations != 0 || st.Used > 2 {
		t.Errorf("%+v, want no reservation, at most 2 used", st)
	}
}

// TestReservationMakesRoom checks that a reservation for which room has to be made is made
// once, and charged.
func TestReservationMakesRoom(t *testing.T) {
	for _, text := range []string{"10/h", "10/h fixed_window"} {
		limit := weir.MustLimit(text)
		now := clockAt(begin)
		s := newStore(t, memstore.Config{MaxKeys: 2, Clock: now.Load})
		take(t, s, "first", limit, 1)
		take(t, s, "second", limit, 1)
		now.Add(hour)
		r := weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 3, ID: "i", TTL: time.Minute}
		for range 2 {
			if d := do(t, s, r); !d.OK || d.Granted != 3 || d.Remaining != 7 {
				t.Errorf("%s: reserve = %+v, want 3 granted, 7 remaining", limit, d)
			}
		}
		r.Verb = weir.Cancel
		if d := do(t, s, r); d.Remaining != 10 {
			t.Errorf("%s: cancel = %+v, want 10 remaining", limit, d)
		}
	}
}

// TestLongStatesAreBounded checks that a long state counts as the many keys whose room it
// takes.
func TestLongStatesAreBounded(t *testing.T) {
	limit := weir.MustLimit("10000/h sliding_log")
	now := clockAt(begin)
	s := newStore(t, memstore.Config{MaxKeys: 100, Clock: now.Load})
	var err error
	admitted := 0
	for err == nil && admitted < 10_000 {
		_, err = s.Do(context.Background(), weir.Request{Key: "k", Limit: limit, N: 1})
		admitted++
		now.Add(1)
	}
	if !errors.Is(err, weir.ErrFull) || admitted > 2000 {
		t.Errorf("%v after %d admissions, want ErrFull before 2000", err, admitted)
	}
	if d := do(t, s, weir.Request{Verb: weir.Peek, Key: "k", Limit: limit, N: 1}); int(d.Remaining) != 10_000-admitted+1 {
		t.Errorf("%d remaining after %d admissions, want %d", d.Remaining, admitted-1, 10_000-admitted+1)
	}
	do(t, s, weir.Request{Verb: weir.Reset, Key: "k", Limit: limit})
	if st := s.Stats(); st.Used != 0 || st.Keys != 0 {
		t.Errorf("after Reset: %+v, want nothing used", st)
	}
}

// TestKeysInUseStay checks that keys which are asked for again within 10 seconds of being full stay in
// a table that grows, and that it drops them later. Those with debt stay in either case.
func TestKeysInUseStay(t *testing.T) {
	for _, first := range []int64{1, begin} { // the clock may begin near 0
		for _, limit := range []string{"1000000/s", "1000000/ms fixed_window"} {
			clock := clockAt(first)
			s := newStore(t, memstore.Config{Clock: clock.Load})
			const n = 3000
			fill := func(prefix, limit string) int {
				for i := range n {
					take(t, s, prefix+strconv.Itoa(i), weir.MustLimit(limit), 1)
				}
				return s.Stats().Keys
			}
			fill("debt ", "1/h burst 2")
			fill("used ", limit)
			clock.Add(5_000_000)
			if keys := fill("other ", limit); keys != 3*n {
				t.Errorf("%s: %d keys, want %d: all those of the last 10 seconds", limit, keys, 3*n)
			}
			clock.Add(20_000_000)
			if keys := fill("later ", limit); keys > 3*n || keys < 2*n {
				t.Errorf("%s: %d keys, want those with debt and those of the last 10 seconds: %d to %d", limit, keys, 2*n, 3*n)
			}
			for i := range n {
				if d := take(t, s, "debt "+strconv.Itoa(i), weir.MustLimit("1/h burst 2"), 2); d.OK {
					t.Fatal("a key with debt was dropped")
				}
			}
		}
	}
}
