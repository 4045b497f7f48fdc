package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// An instant to begin at, and an hour, in µs.
const (
	begin = 1_767_225_600_000_000
	hour  = 3_600_000_000
)

// kept makes a store with a snapshot and a clock.
func kept(tb testing.TB, path string, now *atomic.Int64) *memstore.Store {
	tb.Helper()
	return newStore(tb, memstore.Config{MaxKeys: 1000, Snapshot: path, SnapshotEvery: time.Hour, Clock: now.Load})
}

func clockAt(us int64) *atomic.Int64 {
	var now atomic.Int64
	now.Store(us)
	return &now
}

func closeStore(tb testing.TB, s *memstore.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// TestSnapshot checks that what is left of every limit is the same after a restart.
func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	var limits []weir.Limit
	for _, text := range []string{
		"10/24h", "1000003/24h", "10/24h leaky_bucket burst 9", "10/24h fixed_window",
		"10/24h sliding_window", "10/24h sliding_log", "10 concurrency lease 24h",
	} {
		limits = append(limits, weir.MustLimit(text))
	}
	s := kept(t, path, now)
	want := map[string]weir.Decision{}
	for _, l := range limits {
		for _, key := range []string{"a", "b"} {
			take(t, s, key, l, 3)
			if key == "b" {
				now.Add(1000)
				take(t, s, key, l, 1)
			}
		}
	}
	look := func(s *memstore.Store, l weir.Limit, key string) weir.Decision {
		d := do(t, s, weir.Request{Verb: weir.Peek, Key: key, Limit: l, N: 7})
		d.Limit = weir.Limit{} // of another parse
		return d
	}
	for _, l := range limits {
		for _, key := range []string{"a", "b"} {
			want[l.String()+key] = look(s, l, key)
		}
	}
	closeStore(t, s)
	s = kept(t, path, now)
	if n := s.Stats().Keys; n != 2*len(limits) {
		t.Errorf("after the restart %d keys are known, want %d", n, 2*len(limits))
	}
	for _, l := range limits {
		for _, key := range []string{"a", "b"} {
			if got := look(s, l, key); got != want[l.String()+key] {
				t.Errorf("%s, %s: after the restart %+v, want %+v", l, key, got, want[l.String()+key])
			}
		}
	}
	closeStore(t, s)

	now.Add(25 * hour)
	s = kept(t, path, now)
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("a day later %d keys are known, want none", n)
	}
}

// TestDailyQuotaSurvivesRestart checks that a daily quota is not given twice by a restart,
// whatever the limit.
func TestDailyQuotaSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	daily := weir.MustLimit("5/24h fixed_window")
	admitted := 0
	for range 4 {
		s := kept(t, path, now)
		for range 3 {
			if take(t, s, "user", daily, 1).OK {
				admitted++
			}
		}
		now.Add(hour)
		closeStore(t, s)
	}
	if admitted != 5 {
		t.Errorf("%d admitted in a day with three restarts, want 5", admitted)
	}
}

// TestReservationsSurviveRestart checks that a reservation outlives a restart: it can be
// settled, and it runs out.
func TestReservationsSurviveRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	limit := weir.MustLimit("10/1000h")
	reserve := func(s weir.Store, id string) {
		do(t, s, weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 3, ID: id, TTL: time.Hour})
	}
	s := kept(t, path, now)
	reserve(s, "kept")
	reserve(s, "lost")
	do(t, s, weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 1, ID: "settled", TTL: time.Hour})
	do(t, s, weir.Request{Verb: weir.Commit, Key: "k", Limit: limit, N: 1, ID: "settled"})
	closeStore(t, s)

	s = kept(t, path, now)
	for _, step := range []struct {
		name      string
		verb      weir.Verb
		id        string
		after     int64
		remaining int64
	}{
		{"a known one is not charged again", weir.Reserve, "kept", 0, 3},
		{"nor is a settled one", weir.Commit, "settled", 0, 3},
		{"it is settled", weir.Cancel, "kept", 0, 6},
		{"the other one runs out", weir.Peek, "", hour, 9},
	} {
		now.Add(step.after)
		r := weir.Request{Verb: step.verb, Key: "k", Limit: limit, ID: step.id, TTL: time.Hour}
		if step.verb == weir.Reserve {
			r.N = 3
		}
		if d := do(t, s, r); d.Remaining != step.remaining {
			t.Errorf("%s: %d remaining, want %d", step.name, d.Remaining, step.remaining)
		}
	}
	if n := s.Stats().Reservations; n != 0 {
		t.Errorf("%d reservations are left, want none", n)
	}
}

// TestSnapshotOfLaterClock checks that no key is denied longer than its debt lasts if
// the clock restarts before the snapshot.
func TestSnapshotOfLaterClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	s := kept(t, path, now)
	for _, text := range []string{"1/h", "1/h fixed_window", "1000003/h burst 1"} {
		take(t, s, "k", weir.MustLimit(text), 1)
	}
	closeStore(t, s)
	now.Store(begin - 1000*hour)
	s = kept(t, path, now)
	for _, text := range []string{"1/h", "1/h fixed_window"} {
		l := weir.MustLimit(text)
		if d := take(t, s, "k", l, 1); d.OK || d.RetryAfter > time.Hour {
			t.Errorf("%s: %+v, want a denial for an hour at most", l, d)
		}
	}
	now.Add(hour)
	for _, text := range []string{"1/h", "1/h fixed_window"} {
		if d := take(t, s, "k", weir.MustLimit(text), 1); !d.OK {
			t.Errorf("%s an hour later: denied, want admitted", text)
		}
	}
}

// TestDamagedSnapshot checks that every single byte of a snapshot counts: with any of them
// changed, or with some cut off or added, it is refused.
func TestDamagedSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	small := memstore.Config{MaxKeys: 50, Snapshot: path, Clock: now.Load}
	s := newStore(t, small)
	take(t, s, "a", weir.MustLimit("1/24h"), 1)
	take(t, s, "a", weir.MustLimit("1/24h fixed_window"), 1)
	do(t, s, weir.Request{Verb: weir.Reserve, Key: "b", Limit: weir.MustLimit("1/24h"), N: 1, ID: "i", TTL: time.Hour})
	closeStore(t, s)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, file []byte) {
		t.Helper()
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := memstore.New(small)
		if err == nil {
			s.Close()
			t.Fatalf("%s: no error", what)
		}
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error that wraps ErrInvalid and names the file", what, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(file) {
			t.Fatalf("%s: the file was touched", what)
		}
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		for _, with := range []byte{1, 0x80, 0xff} {
			bad[i] = good[i] ^ with
			refused(fmt.Sprintf("byte %d changed", i), bad)
		}
		refused(fmt.Sprintf("cut short at %d", i), good[:i])
	}
	refused("longer", append(append([]byte(nil), good...), 0))
	refused("of another version", append([]byte("weirmem\x02"), good[8:]...))

	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := newStore(t, small); s.Stats().Keys != 3 {
		t.Errorf("the file as it was: %+v, want 3 keys", s.Stats())
	}
}

// TestSnapshotAboveCap checks that a snapshot with more keys with debt than MaxKeys is
// refused, because none of them may be evicted.
func TestSnapshotAboveCap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	now := clockAt(begin)
	s := kept(t, path, now)
	for _, key := range keysOf(10) {
		take(t, s, key, weir.MustLimit("1/24h"), 1)
	}
	closeStore(t, s)
	_, err := memstore.New(memstore.Config{MaxKeys: 9, Snapshot: path, Clock: now.Load})
	if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "MaxKeys") {
		t.Errorf("New with too few MaxKeys = %v, want an error that says so", err)
	}
	now.Add(24 * hour)
	s, err = memstore.New(memstore.Config{MaxKeys: 9, Snapshot: path, Clock: now.Load})
	if err != nil {
		t.Fatalf("New when they owe no more = %v", err)
	}
	s.Close()
}

// TestSnapshotInterval checks that snapshots are written at intervals, so that a process
// that dies loses little.
func TestSnapshotInterval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.snapshot")
	synctest.Test(t, func(t *testing.T) {
		limit := weir.MustLimit("1/24h")
		s := newStore(t, memstore.Config{Snapshot: path})
		take(t, s, "k", limit, 1)
		<-time.After(61 * time.Second)
		if st := s.Stats(); st.Snapshots != 2 || st.SnapshotErr != nil {
			t.Fatalf("after a minute: %+v, want two snapshots, the first by New", st)
		}
		died := newStore(t, memstore.Config{Snapshot: path}) // as if the first had died
		if take(t, died, "k", limit, 1).OK {
			t.Error("the key that owes was forgotten")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil { // nothing can be written there
			t.Fatal(err)
		}
		<-time.After(61 * time.Second)
		if st := s.Stats(); st.SnapshotErr == nil {
			t.Errorf("with no place to write: %+v, want an error", st)
		}
		if err := s.Close(); err == nil {
			t.Error("Close with no place to write = nil, want an error")
		}
		died.Close()
	})
}

// TestClose checks that a closed store decides nothing.
func TestClose(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "weir.snapshot")} {
		s := newStore(t, memstore.Config{Snapshot: path})
		limits := []weir.Limit{weir.MustLimit("5/h"), weir.MustLimit("5/h fixed_window")}
		for _, l := range limits {
			take(t, s, "k", l, 1)
		}
		closeStore(t, s)
		closeStore(t, s)
		for _, l := range limits {
			for _, verb := range []weir.Verb{weir.Take, weir.Peek, weir.Charge, weir.Reset} {
				for _, key := range []string{"k", "new"} {
					r := weir.Request{Verb: verb, Key: key, Limit: l, N: 1}
					if _, err := s.Do(context.Background(), r); !errors.Is(err, weir.ErrClosed) {
						t.Errorf("%s %s of %s in a closed store = %v, want ErrClosed", verb, key, l, err)
					}
					if _, err := s.DoAll(context.Background(), []weir.Request{r}, make([]weir.Decision, 1)); !errors.Is(err, weir.ErrClosed) {
						t.Errorf("DoAll of %s %s of %s in a closed store = %v, want ErrClosed", verb, key, l, err)
					}
				}
			}
		}
	}
}
