package adjustment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
)

func newStore(t *testing.T, changed func()) (*adjustment.Store, *audit.Log) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a, err := audit.New(audit.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return adjustment.New(adjustment.Config{Audit: a, Changed: changed, Log: log}), a
}

func of(kind adjustment.Kind, key string) adjustment.Adjustment {
	a := adjustment.Adjustment{Policy: "p", Key: []string{key}, StateKey: fmt.Sprintf("p|%d:%s", len(key), key), Kind: kind, Reason: "why", By: "mei"}
	if kind == adjustment.Raise {
		a.Limits = []string{"9/s"}
	}
	return a
}

func entries(t *testing.T, l *audit.Log) []audit.Entry {
	t.Helper()
	es, err := l.Read(t.Context(), audit.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return es
}

// TestChanges checks which adjustment replaces which, and that only a change has an audit entry.
func TestChanges(t *testing.T) {
	var changes int
	s, log := newStore(t, func() { changes++ })
	for i, step := range []struct {
		a    adjustment.Adjustment
		lift bool
		err  error
		want adjustment.Kind // afterwards; "" for none
	}{
		{of("", "k"), true, adjustment.ErrNone, ""},
		{of(adjustment.Raise, "k"), false, nil, adjustment.Raise},
		{of(adjustment.Raise, "k"), false, nil, adjustment.Raise},
		{of(adjustment.Freeze, "k"), false, nil, adjustment.Freeze},
		{of(adjustment.Raise, "k"), false, adjustment.ErrDenied, adjustment.Freeze},
		{of(adjustment.Block, "k"), false, nil, adjustment.Block},
		{of(adjustment.Raise, "k"), false, adjustment.ErrDenied, adjustment.Block},
		{of(adjustment.Raise, "other"), false, nil, adjustment.Block},
		{of("", "k"), true, nil, ""},
	} {
		made, changed := len(entries(t, log)), changes
		before, had := s.Get(step.a.StateKey)
		do := s.Set
		if step.lift {
			do = s.Lift
		}
		was, e, err := do(t.Context(), step.a, audit.Entry{Action: "x"})
		if !errors.Is(err, step.err) {
			t.Fatalf("step %d: %v, want %v", i, err, step.err)
		}
		if err == nil && ((was != nil) != had || had && was.Kind != before.Kind || e.ID == 0 || !*e.OK) {
			t.Errorf("step %d: before %+v, entry %+v, want %+v and an entry that is ok", i, was, e, before)
		}
		if now, _ := s.Get("p|1:k"); now.Kind != step.want {
			t.Errorf("step %d: the key is %q, want %q", i, now.Kind, step.want)
		}
		if n := len(entries(t, log)) - made; (n == 1) != (err == nil) || (changes-changed == 1) != (err == nil) {
			t.Errorf("step %d: %d entries and %d changes with %v, want one of each for a change", i, n, changes-changed, err)
		}
	}
}

// TestEnd checks that a raise ends at its time, and that Changed is called then.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		s, _ := newStore(t, func() { changes.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		for i, d := range []time.Duration{10 * time.Second, 2 * time.Second} {
			a := of(adjustment.Raise, fmt.Sprint(i))
			a.For = d
			if _, _, err := s.Set(ctx, a, audit.Entry{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(2*time.Second - time.Millisecond)
		synctest.Wait()
		if n := len(s.Current()); n != 2 || changes.Load() != 2 {
			t.Errorf("before the end: %d adjustments, %d changes, want 2 and 2", n, changes.Load())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if all := s.Current(); len(all) != 1 || all[0].Key[0] != "0" || changes.Load() != 3 {
			t.Errorf("at the end: %+v, %d changes, want the longer one and 3", all, changes.Load())
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if n := len(s.Current()); n != 0 || changes.Load() != 4 {
			t.Errorf("at the last end: %d adjustments, %d changes, want 0 and 4", n, changes.Load())
		}
		cancel()
		running.Wait()
	})
}

// TestMax checks that the number of adjustments is bounded, and that an ended one makes place.
func TestMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStore(t, func() {})
		for i := range adjustment.Max {
			a := of(adjustment.Block, fmt.Sprint(i))
			a.For = time.Hour
			if _, _, err := s.Set(t.Context(), a, audit.Entry{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Set(t.Context(), of(adjustment.Freeze, "more"), audit.Entry{}); !errors.Is(err, adjustment.ErrFull) {
			t.Errorf("one more than Max = %v, want ErrFull", err)
		}
		if _, _, err := s.Set(t.Context(), of(adjustment.Freeze, "7"), audit.Entry{}); err != nil {
			t.Errorf("another adjustment of a key = %v", err)
		}
		time.Sleep(time.Hour)
		if _, _, err := s.Set(t.Context(), of(adjustment.Freeze, "more"), audit.Entry{}); err != nil || len(s.Current()) != 2 {
			t.Errorf("after the end of the others = %v, %d adjustments, want 2", err, len(s.Current()))
		}
	})
}

func TestText(t *testing.T) {
	a := of(adjustment.Raise, "k")
	a.ID, a.Until = "i", time.UnixMilli(1764000000123)
	if got := a.String(); got != "raised to 9/s until 2025-11-24T16:00:00.123Z by mei: why" {
		t.Errorf("String = %s", got)
	}
	b, err := json.Marshal(a)
	if want := `{"id":"i","policy":"p","key":["k"],"kind":"raise","limits":["9/s"],"until":"2025-11-24T16:00:00.123Z","reason":"why","by":"mei","at":null}`; err != nil || string(b) != want {
		t.Errorf("JSON %s, %v, want %s", b, err, want)
	}
	freeze := of(adjustment.Freeze, "k")
	p, err := freeze.ForSet()
	if err != nil || !p.Block || !strings.HasPrefix(p.Note, "frozen by mei") {
		t.Errorf("ForSet = %+v, %v, want a block with its reason", p, err)
	}
}
