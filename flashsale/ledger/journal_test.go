package ledger_test

import (
	"database/sql"
	"encoding/json"
	"errors"
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
	pending(t, j, "s", 1, rs[3])
	pending(t, j, "s", 2, rs[4], rs[0])

	// After a restart, the removed entries of rows with others return.
	again := journal(t, openAt(t, dsn, ledger.Config{}))
	pending(t, again, "s", 1, rs[2:4]...)
	pending(t, again, "s", 2, rs[4], rs[1], rs[0])
	pending(t, again, "other", 1, rs[0])
}

// TestJournalRows checks when rows are deleted: with the next Append, or when no entry is left.
func TestJournalRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j, rs := journal(t, openAt(t, "sqlite:"+path, ledger.Config{})), entries(6)
	for _, step := range []struct {
		add, remove string // digits of entries
		rows        int
	}{{"01", "", 1}, {"23", "", 2}, {"", "0", 2}, {"", "1", 2}, {"4", "", 2}, {"", "24", 2}, {"3", "", 2}, {"5", "", 2}, {"", "3", 2}, {"", "5", 0}, {"", "5", 0}, {"0", "", 1}} {
		var add []sale.Reservation
		for _, d := range step.add {
			add = append(add, rs[d-'0'])
		}
		err := j.Append(t.Context(), "s", 1, add)
		for _, d := range step.remove {
			err = errors.Join(err, j.Remove(t.Context(), "s", rs[d-'0'].ID))
		}
		if n := countRows(t, path, "journal"); err != nil || n != step.rows {
			t.Errorf("%+v: %d rows, %v", step, n, err)
		}
	}
}

// TestJournalOfStream migrates entries of a version that had a row for each.
func TestJournalOfStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rs := entries(3)
	withoutHeld(t, path)
	raw(t, path, "DROP TABLE journal", "DELETE FROM goose_db_version WHERE version_id = 17",
		"CREATE TABLE stream (id INTEGER PRIMARY KEY AUTOINCREMENT, sale text NOT NULL, epoch bigint NOT NULL, entry text NOT NULL, reservation text NOT NULL, UNIQUE (sale, entry))")
	for i, r := range rs {
		doc, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		raw(t, path, fmt.Sprintf("INSERT INTO stream (sale, epoch, entry, reservation) VALUES ('s', %d, '%s', '%s')", i/2+1, r.ID, strings.ReplaceAll(string(doc), "'", "''")))
	}
	raw(t, path, "INSERT INTO stream (sale, epoch, entry, reservation) VALUES ('s', 2, 'x', '{')")
	j := journal(t, openAt(t, "sqlite:"+path, ledger.Config{}))
	pending(t, j, "s", 1, rs[:2]...)
	got, err := j.Pending(t.Context(), "s", 2)
	if err != nil || len(got) != 2 || got[0].Reservation != rs[2] || got[1].Corrupt == "" {
		t.Errorf("Pending = %+v, %v", got, err)
	}
}

// TestJournalDamaged reads rows that another program has changed.
func TestJournalDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j := journal(t, openAt(t, "sqlite:"+path, ledger.Config{}))
	rs := entries(6)
	for i := range rs {
		if err := j.Append(t.Context(), "s", 1, rs[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	raw(t, path,
		"UPDATE journal SET reservations = 'no JSON' WHERE id = 1",
		`UPDATE journal SET reservations = '[{"id":7}]' WHERE id = 2`,
		`UPDATE journal SET reservations = '[{}]' WHERE id = 3`,
		"UPDATE journal SET reservations = substr(reservations, 1, 40) WHERE id = 4",
		"UPDATE journal SET reservations = CAST(x'00ff' || randomblob(5000) AS text) WHERE id = 5",
		"UPDATE journal SET reservations = '[null,' || substr(reservations, 2) WHERE id = 6",
	)
	j = journal(t, openAt(t, "sqlite:"+path, ledger.Config{}))
	got, err := j.Pending(t.Context(), "s", 1)
	if err != nil || len(got) != 7 {
		t.Fatalf("Pending = %d, %v", len(got), err)
	}
	ids := map[string]bool{}
	for i, e := range got {
		if (e.Corrupt == "") != (i == 6) || e.ID == "" || i < 6 && e.Reservation != (sale.Reservation{}) || len(e.Corrupt) > 1000 || i == 6 && e.Reservation != rs[5] {
			t.Errorf("entry %d: %+v", i, e)
		}
		ids[e.ID] = true
		if err := j.Remove(t.Context(), "s", e.ID); err != nil {
			t.Error(err)
		}
	}
	if n := countRows(t, path, "journal"); n != 0 || len(ids) != 7 {
		t.Errorf("%d rows are left, %d different IDs", n, len(ids))
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

// countRows counts the rows of a table in a file.
func countRows(t *testing.T, path, table string) (n int) {
	t.Helper()
	db := openRaw(t, path)
	if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
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
