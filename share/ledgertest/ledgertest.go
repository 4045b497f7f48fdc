// Package ledgertest tests that a [share.Ledger] keeps its rules.
//
//	func TestLedger(t *testing.T) {
//		ledgertest.Run(t, func(tb testing.TB) share.Ledger { return newLedger(tb) })
//	}
//
// [Run] checks the numbered rules of the doc comment of share.Ledger, under the same numbers.
// Several tests use one engine at a time: names are random, so it need not be empty.
package ledgertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

type tester struct {
	testing.TB
	share.Ledger
}

var checks = []struct {
	name string
	run  func(t tester)
}{
	{"rule 1: a row is what was written", content},
	{"rule 1: any bytes", anyBytes},
	{"rule 1: a large row and a long name", sizes},
	{"rule 2: a write needs the version", versions},
	{"rule 2: rows of a call are independent", independent},
	{"rule 2: one of many writers succeeds", writers},
	{"rule 3: versions do not repeat", unique},
	{"rule 4: the time goes on", clock},
	{"rule 5: rows are kept", keep},
	{"rule 6: a late write has no effect", late},
	{"rule 7: a call without a reply is unavailable", canceled},
	{"rule 8: a row that is found is that of Load", found},
}

// Run checks the rules, each with a ledger of its own. Open returns one. It ends the test by
// tb.Fatal if it cannot, and closes what it opened by tb.Cleanup.
func Run(t *testing.T, open func(tb testing.TB) share.Ledger) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(tester{t, open(t)}) })
	}
}

func (t tester) load(names ...string) []share.Stored {
	t.Helper()
	rows := make([]share.Stored, len(names))
	if _, err := t.Load(t.Context(), names, rows); err != nil {
		t.Fatalf("Load(%.40q) = %v", names, err)
	}
	return rows
}

// put writes one row and reports whether it was written.
func (t tester) put(name string, version uint64, data string) bool {
	t.Helper()
	swaps := []share.Swap{{Name: name, Version: version, Data: []byte(data), Keep: time.Hour}}
	if err := t.Swap(t.Context(), swaps); err != nil {
		t.Fatalf("Swap(%.40q, version %d) = %v", name, version, err)
	}
	return swaps[0].Done
}

// has compares a row and returns its version.
func (t tester) has(name, want string) uint64 {
	t.Helper()
	row := t.load(name)[0]
	if row.Version == 0 || string(row.Data) != want {
		t.Fatalf("Load(%.40q) = version %d, %d bytes %.40q, want a version and %.40q", name, row.Version, len(row.Data), row.Data, want)
	}
	return row.Version
}

func content(t tester) {
	name := rand.Text()
	if row := t.load(name)[0]; row.Version != 0 || len(row.Data) != 0 {
		t.Fatalf("Load of no row = %+v, want the zero Stored", row)
	}
	if !t.put(name, 0, "one") {
		t.Fatal("Swap of version 0 = not done, want done: there is no row")
	}
	v := t.has(name, "one")
	if again := t.has(name, "one"); again != v {
		t.Errorf("version = %d after %d without a write", again, v)
	}
	if !t.put(name, v, "two") {
		t.Fatal("Swap of the version of the row = not done")
	}
	t.has(name, "two")
	rows := t.load(rand.Text(), name, rand.Text())
	if rows[0].Version != 0 || string(rows[1].Data) != "two" || rows[2].Version != 0 {
		t.Errorf("Load of three names = %+v, want only the second row", rows)
	}
	data := t.load(name)[0].Data
	clear(data)
	t.has(name, "two")
}

func anyBytes(t tester) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	name := rand.Text() + string(all)
	t.put(name, 0, string(all))
	v := t.has(name, string(all))
	t.put(name, v, "")
	t.has(name, "")
}

func sizes(t tester) {
	name := rand.Text()
	name += string(bytes.Repeat([]byte("x"), share.MaxName-len(name)))
	large := string(bytes.Repeat([]byte{0, 0xff, 'y', '\n'}, share.MaxRow/4))
	t.put(name, 0, large)
	t.has(name, large)
	names, swaps := make([]string, share.MaxBatch), make([]share.Swap, share.MaxBatch)
	for i := range names {
		names[i] = rand.Text()
		swaps[i] = share.Swap{Name: names[i], Data: []byte(names[i]), Keep: time.Hour}
	}
	if err := t.Swap(t.Context(), swaps); err != nil {
		t.Fatalf("Swap of %d rows = %v", len(swaps), err)
	}
	for i, row := range t.load(names...) {
		if !swaps[i].Done || string(row.Data) != names[i] {
			t.Fatalf("row %d of a batch = done %v, %q, want true, %q", i, swaps[i].Done, row.Data, names[i])
		}
	}
}

func versions(t tester) {
	name := rand.Text()
	if t.put(name, 1, "early") {
		t.Error("Swap of version 1 without a row = done")
	}
	t.put(name, 0, "one")
	v := t.has(name, "one")
	for _, wrong := range []uint64{0, v - 1, v + 1, 1 << 62} {
		if t.put(name, wrong, "wrong") {
			t.Errorf("Swap of version %d = done, the row has version %d", wrong, v)
		}
	}
	if got := t.has(name, "one"); got != v {
		t.Errorf("version = %d after writes without effect, want %d", got, v)
	}
}

func independent(t tester) {
	a, b, c := rand.Text(), rand.Text(), rand.Text()
	t.put(b, 0, "old")
	swaps := []share.Swap{
		{Name: a, Data: []byte("new"), Keep: time.Hour},
		{Name: b, Data: []byte("new"), Keep: time.Hour, Done: true},
		{Name: c, Data: []byte("new"), Keep: time.Hour},
	}
	if err := t.Swap(t.Context(), swaps); err != nil {
		t.Fatal(err)
	}
	if !swaps[0].Done || swaps[1].Done || !swaps[2].Done {
		t.Errorf("Done = %v, %v, %v, want true, false, true", swaps[0].Done, swaps[1].Done, swaps[2].Done)
	}
	t.has(a, "new")
	t.has(b, "old")
	t.has(c, "new")
}

func writers(t tester) {
	name := rand.Text()
	t.put(name, 0, "")
	const goroutines, writes = 8, 25
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for n := 0; n < writes; {
				rows := make([]share.Stored, 1)
				if _, err := t.Load(t.Context(), []string{name}, rows); err != nil {
					t.Error(err)
					return
				}
				swaps := []share.Swap{{Name: name, Version: rows[0].Version, Data: append(rows[0].Data, '+'), Keep: time.Hour}}
				if err := t.Swap(t.Context(), swaps); err != nil {
					t.Error(err)
					return
				}
				if swaps[0].Done {
					n++
				} else {
					conflicts.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if row := t.load(name)[0]; len(row.Data) != goroutines*writes {
		t.Errorf("%d writes made %d changes (%d conflicts)", goroutines*writes, len(row.Data), conflicts.Load())
	}
}

func unique(t tester) {
	name := rand.Text()
	var seen []uint64
	version := uint64(0)
	for range 20 {
		t.put(name, version, "x")
		version = t.has(name, "x")
		if slices.Contains(seen, version) {
			t.Fatalf("version %d occurs twice", version)
		}
		seen = append(seen, version)
	}
}

func clock(t tester) {
	read := func() time.Time {
		now, err := t.Load(t.Context(), []string{rand.Text()}, make([]share.Stored, 1))
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	last := read()
	if last.UnixMicro() <= 0 || !last.Equal(last.Truncate(time.Microsecond)) {
		t.Errorf("time = %v, want whole µs after 1970", last)
	}
	for range 50 {
		now := read()
		if now.Before(last) {
			t.Fatalf("time = %v after %v", now, last)
		}
		last = now
	}
}

func keep(t tester) {
	name := rand.Text()
	swaps := []share.Swap{{Name: name, Data: []byte("short"), Keep: 0}}
	if err := t.Swap(t.Context(), swaps); err != nil || !swaps[0].Done {
		t.Fatalf("Swap with Keep 0 = done %v, %v", swaps[0].Done, err)
	}
	// Whether the row is there or not, it can be replaced by one that is kept.
	for range 3 {
		row := t.load(name)[0]
		swaps = []share.Swap{{Name: name, Version: row.Version, Data: []byte("long"), Keep: 40 * 24 * time.Hour}}
		if err := t.Swap(t.Context(), swaps); err != nil {
			t.Fatal(err)
		}
		if swaps[0].Done {
			break
		}
	}
	t.has(name, "long")
}

func late(t tester) {
	name := rand.Text()
	t.put(name, 0, "one")
	v := t.has(name, "one")
	t.put(name, v, "two")
	if t.put(name, v, "one again") || t.put(name, 0, "new") {
		t.Error("a Swap of a former version = done")
	}
	t.has(name, "two")
}

func canceled(t tester) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := rand.Text()
	if _, err := t.Load(ctx, []string{name}, make([]share.Stored, 1)); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Load with a context that ended = %v, want an error that wraps ErrUnavailable", err)
	}
	if err := t.Swap(ctx, []share.Swap{{Name: name, Data: []byte("x")}}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Swap with a context that ended = %v, want an error that wraps ErrUnavailable", err)
	}
}

func found(t tester) {
	name, none := rand.Text(), rand.Text()
	t.put(name, 0, "one")
	before, err := t.Load(t.Context(), []string{name}, make([]share.Stored, 1))
	if err != nil {
		t.Fatal(err)
	}
	swaps := []share.Swap{{Name: name, Data: []byte("new"), Keep: time.Hour}, {Name: none, Version: 1, Data: []byte("new"), Keep: time.Hour}}
	if err := t.Swap(t.Context(), swaps); err != nil || swaps[0].Done || swaps[1].Done {
		t.Fatalf("Swap of other versions = done %v and %v, %v, want not done", swaps[0].Done, swaps[1].Done, err)
	}
	if swaps[0].At.IsZero() && swaps[1].At.IsZero() {
		return // it does not report rows
	}
	row := t.load(name)[0]
	if f := swaps[0].Found; f.Version != row.Version || string(f.Data) != "one" || swaps[0].At.Before(before) {
		t.Errorf("found version %d, %.40q at %v, want %d, one, not before %v", f.Version, f.Data, swaps[0].At, row.Version, before)
	}
	if f := swaps[1].Found; f.Version != 0 || len(f.Data) > 0 || swaps[1].At.Before(before) {
		t.Errorf("found version %d, %.40q at %v, want no row, not before %v", f.Version, f.Data, swaps[1].At, before)
	}
}
