package ledger_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
)

func entries(n int) []sale.Reservation {
	rs := make([]sale.Reservation, n)
	for i := range rs {
		rs[i] = sale.Reservation{
			ID: fmt.Sprintf("reservation-%08d", i), Sale: "s", Epoch: 1, User: `u"'` + "\u2028", Slot: 1, Ticket: "t", Key: "k",
			At: start, PayBy: start.Add(time.Minute),
		}
	}
	return rs
}

var start = time.Date(2031, 5, 1, 10, 0, 0, 0, time.UTC)

func journal(t testing.TB, l *ledger.Ledger) *ledger.Journal {
	t.Helper()
	j, err := l.Journal()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// pending fails the test unless the stream of a sale at an epoch is want.
func pending(t *testing.T, j *ledger.Journal, id string, epoch int64, want ...sale.Reservation) {
	t.Helper()
	got, err := j.Pending(t.Context(), id, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("Pending(%s, %d) = %d entries, want %d", id, epoch, len(got), len(want))
	}
	for i, e := range got {
		if e.ID != want[i].ID || e.Reservation != want[i] || e.Corrupt != "" || e.Deliveries != 0 {
			t.Fatalf("Pending(%s, %d): entry %d: %+v, want %+v", id, epoch, i, e, want[i])
		}
	}
}

// TestJournal appends, moves and removes, over a reopening.
func TestJournal(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "j.db")
	l := openAt(t, dsn, ledger.Config{})
	j, ctx, rs := journal(t, l), t.Context(), entries(6)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pending(t, j, "s", 1)
	must(j.Append(ctx, "s", 1, rs[:2]))
	must(j.Append(ctx, "s", 1, rs[2:4]))
	must(j.Append(ctx, "other", 1, rs[:1])) // its own
	must(j.Append(ctx, "s", 1, nil))
	pending(t, j, "s", 1, rs[:4]...)
	must(j.Append(ctx, "s", 2, []sale.Reservation{rs[4], rs[1], rs[0]})) // these move
	pending(t, j, "s", 1, rs[2:4]...)
	pending(t, j, "s", 2, rs[4], rs[1], rs[0])
	pending(t, j, "other", 1, rs[0])
	must(j.Remove(ctx, "s", rs[1].ID, rs[2].ID, "nothing", "", "\x00"))
	must(j.Remove(ctx, "s"))

	again := journal(t, openAt(t, dsn, ledger.Config{}))
	pending(t, again, "s", 1, rs[3])
	pending(t, again, "s", 2, rs[4], rs[0])
	pending(t, again, "other", 1, rs[0])
}

// TestJournalDamaged reads entries that another program has changed.
func TestJournalDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j := journal(t, openAt(t, "sqlite:"+path, ledger.Config{}))
	rs := entries(6)
	if err := j.Append(t.Context(), "s", 1, rs); err != nil {
		t.Fatal(err)
	}
	raw(t, path,
		"UPDATE stream SET reservation = 'no JSON' WHERE id = 1",
		`UPDATE stream SET reservation = '{"id":7}' WHERE id = 2`,
		`UPDATE stream SET reservation = '{}' WHERE id = 3`,
		"UPDATE stream SET reservation = substr(reservation, 1, 40) WHERE id = 4",
		"UPDATE stream SET reservation = CAST(x'00ff' || randomblob(5000) AS text) WHERE id = 5",
	)
	got, err := j.Pending(t.Context(), "s", 1)
	if err != nil || len(got) != 6 {
		t.Fatalf("Pending = %d, %v", len(got), err)
	}
	for i, e := range got {
		if (e.Corrupt == "") != (i == 5) || e.ID != rs[i].ID || i < 5 && e.Reservation != (sale.Reservation{}) || len(e.Corrupt) > 1000 {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
}

// TestJournalAtOnce appends for several sales at once.
func TestJournalAtOnce(t *testing.T) {
	j := journal(t, open(t, ledger.Config{}))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 10 {
				if err := j.Append(t.Context(), fmt.Sprint(i), 1, entries(20)[2*n:2*n+2]); err != nil {
					t.Error(err)
				}
				if err := j.Remove(t.Context(), fmt.Sprint(i), entries(20)[2*n].ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var want []sale.Reservation
	for i, r := range entries(20) {
		if i%2 == 1 {
			want = append(want, r)
		}
	}
	for i := range 4 {
		pending(t, j, fmt.Sprint(i), 1, want...)
	}
}

// raw runs statements in a file beside the ledger that has it open.
func raw(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", strings.TrimSpace(q), err)
		}
	}
}

// tables are the names of a file's tables.
func tables(t *testing.T, path string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
