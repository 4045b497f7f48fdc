package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

// TestOpenRefuses names what is not accepted, and shows no password.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		dsn    string
		config ledger.Config
		want   string
	}{
		{"", ledger.Config{}, "unknown scheme"},
		{"mysql://u:secret@h/db", ledger.Config{}, "want postgres://… or sqlite:PATH"},
		{"sqlite", ledger.Config{}, "want the path"},
		{"sqlite:", ledger.Config{}, "want the path"},
		{"sqlite:a\x00b", ledger.Config{}, "want the path"},
		{"postgres://u:secret@h:port/db", ledger.Config{}, "ledger: "},
		{"sqlite:x", ledger.Config{Conns: -1}, "Conns: got -1, want"},
		{"sqlite:x", ledger.Config{Conns: 1001}, "Conns: got 1001, want"},
		{"sqlite:x", ledger.Config{Timeout: -1}, "Timeout: got -1ns, want"},
	} {
		_, err := ledger.Open(t.Context(), c.dsn, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q, %+v): %v, want %q", c.dsn, c.config, err, c.want)
		}
	}
	for _, dsn := range []string{"sqlite:" + filepath.Join(t.TempDir(), "no", "dir.db"), "postgres://u:secret@127.0.0.1:1/db"} {
		_, err := ledger.Open(t.Context(), dsn, ledger.Config{})
		if !errors.Is(err, sale.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v, want that it is unavailable", dsn, err)
		}
	}
	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Open(t.Context(), "sqlite:"+text, ledger.Config{}); err == nil || errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("Open of a text: %v, want that it is no database", err)
	}
}

// TestMigrate opens databases of other versions.
func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	dsn := "sqlite:" + path
	if _, err := ledger.Open(t.Context(), dsn, ledger.Config{NoMigrate: true}); err == nil || !strings.Contains(err.Error(), "has version 0 and this program needs") {
		t.Fatalf("NoMigrate of an empty file: %v", err)
	}
	if got := tables(t, path); len(got) != 0 {
		t.Fatalf("NoMigrate made %v", got)
	}
	var all sync.WaitGroup // several programs start at once
	for range 4 {
		all.Go(func() {
			l, err := ledger.Open(t.Context(), dsn, ledger.Config{})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	openAt(t, dsn, ledger.Config{NoMigrate: true})
	raw(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, TRUE)")
	for _, c := range []ledger.Config{{}, {NoMigrate: true}} {
		if _, err := ledger.Open(t.Context(), dsn, c); err == nil || !strings.Contains(err.Error(), "use a newer program") {
			t.Fatalf("a newer database: %v", err)
		}
	}
}

// withoutHeld undoes the migration 18 of a file.
func withoutHeld(t *testing.T, path string) {
	t.Helper()
	raw(t, path, "DROP INDEX orders_ticket", "DROP INDEX orders_slot", "ALTER TABLE orders DROP CONSTRAINT orders_held", "ALTER TABLE orders DROP CONSTRAINT orders_spent",
		"ALTER TABLE orders DROP COLUMN held", "ALTER TABLE orders DROP COLUMN spent",
		"CREATE UNIQUE INDEX orders_ticket ON orders (sale, ticket) WHERE state IN ('pending_pay', 'paid', 'expired', 'cancelled')",
		"CREATE UNIQUE INDEX orders_slot ON orders (sale, usr, slot) WHERE state IN ('pending_pay', 'paid')",
		"CREATE INDEX orders_user ON orders (usr, at, reservation)", "DELETE FROM goose_db_version WHERE version_id = 18")
}

// TestMigrateHeld migrates orders of all states from a version whose indexes depended on the state.
func TestMigrateHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{})
	s, rs := stocked(t, l, 10, 3)
	place := func(l *ledger.Ledger, like sale.Reservation, user, ticket string) string {
		r := like
		r.ID, r.User, r.Ticket = reservations(s, 1)[0].ID, user, ticket
		placed, err := l.CreateOrders(t.Context(), 1, []sale.Reservation{r}, start)
		if err != nil {
			t.Fatal(err)
		}
		o, err := l.Order(t.Context(), r.ID)
		if err != nil || o.State != placed[0].State {
			t.Fatalf("order %+v, %v; want state %s", o, err, placed[0].State)
		}
		return string(o.State)
	}
	if _, err := l.Pay(t.Context(), sale.Payment{ID: "p", Reservation: rs[1].ID, Amount: 9900}, start); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Cancel(t.Context(), rs[2].User, rs[2].ID, start); err != nil {
		t.Fatal(err)
	}
	if state := place(l, rs[0], rs[0].User, "rejected"); state != "rejected" {
		t.Fatalf("a second order of a user is %s", state)
	}
	lost := reservations(s, 1)[0]
	lost.User = "lost"
	if err := l.MarkLost(t.Context(), lost, start); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	withoutHeld(t, path)
	l = openAt(t, "sqlite:"+path, ledger.Config{})
	for _, c := range []struct{ what, user, ticket, want string }{
		{"the slot of a pending order", rs[0].User, "t1", "rejected"},
		{"the slot of a paid order", rs[1].User, "t2", "rejected"},
		{"the slot of a cancelled order", rs[2].User, "t3", "pending_pay"},
		{"the ticket of a cancelled order", "u4", rs[2].Ticket, "rejected"},
		{"the ticket of a rejected reservation", "u5", "rejected", "pending_pay"},
		{"the user and the ticket of a lost reservation", lost.User, lost.Ticket, "pending_pay"},
	} {
		if state := place(l, rs[0], c.user, c.ticket); state != c.want {
			t.Errorf("an order with %s is %s, want %s", c.what, state, c.want)
		}
	}
	if orders, err := l.Orders(t.Context(), rs[0].User); err != nil || len(orders) != 3 {
		t.Errorf("%d orders of a user, %v; want 3", len(orders), err)
	}
}

// TestMigrateFromOldTable opens databases whose versions are in the table that programs kept
// before goose.
func TestMigrateFromOldTable(t *testing.T) {
	files, err := filepath.Glob("internal/database/migrations/sqlite/*.sql")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	versions := make([]int, len(files)+1) // after so many files
	for i, f := range files {
		if _, err := fmt.Sscanf(filepath.Base(f), "%d", &versions[i+1]); err != nil {
			t.Fatal(f, err)
		}
	}
	for _, applied := range []int{0, 3, len(files)} {
		path := filepath.Join(t.TempDir(), "old.db")
		raw(t, path, "CREATE TABLE migrations (version int PRIMARY KEY, at bigint NOT NULL)")
		for i, f := range files[:applied] {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			raw(t, path, string(text))
			raw(t, path, fmt.Sprintf("INSERT INTO migrations (version, at) VALUES (%d, 0)", versions[i+1]))
		}
		merchants := applied > 0 && applied < len(files) // with a password, from before accounts
		if merchants {
			raw(t, path, "INSERT INTO merchants (name, hash) VALUES ('alice', 'a hash')")
		}
		_, err := ledger.Open(t.Context(), "sqlite:"+path, ledger.Config{NoMigrate: true})
		if applied < len(files) && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has version %d and this program needs", versions[applied]))) {
			t.Errorf("NoMigrate at version %d: %v", applied, err)
		}
		l := openAt(t, "sqlite:"+path, ledger.Config{})
		stocked(t, l, 5, 2)
		if merchants {
			want := account.Account{Merchant: "alice", Name: "alice", Role: account.Owner, Hash: "a hash"}
			if got, err := l.Accounts().Account(t.Context(), "alice"); err != nil || got != want {
				t.Errorf("a merchant became %+v, %v, want %+v", got, err, want)
			}
		}
		if got := tables(t, path); slices.Contains(got, "migrations") || !slices.Contains(got, "goose_db_version") {
			t.Errorf("tables after version %d: %v", applied, got)
		}
		openAt(t, "sqlite:"+path, ledger.Config{NoMigrate: true})
	}
	path := filepath.Join(t.TempDir(), "newer.db")
	raw(t, path, "CREATE TABLE migrations (version int PRIMARY KEY, at bigint NOT NULL)")
	raw(t, path, "INSERT INTO migrations (version, at) VALUES (999, 0)")
	if _, err := ledger.Open(t.Context(), "sqlite:"+path, ledger.Config{}); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("a newer database: %v", err)
	}
}

// TestGuards breaks every rule behind the program's back: the database refuses.
func TestGuards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{})
	s, rs := stocked(t, l, 3, 2)
	if _, err := l.Pay(t.Context(), sale.Payment{ID: "p1", Reservation: rs[0].ID, Amount: 9900}, start); err != nil {
		t.Fatal(err)
	}
	db := openRaw(t, path)
	for _, q := range ledgertest.InvalidStatements() {
		if _, err := db.Exec(q); err == nil || !strings.Contains(err.Error(), "constraint failed") {
			t.Errorf("%s: %v, want a constraint", q, err)
		}
	}
	if got, err := l.Totals(t.Context(), s.ID); err != nil || got.Pending != 1 || got.Paid != 1 || got.Movements != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// stocked makes a sale with units of which placed are orders.
func stocked(t testing.TB, l *ledger.Ledger, units int64, placed int) (sale.Sale, []sale.Reservation) {
	t.Helper()
	s, err := l.Create(t.Context(), "shop", "", sale.Draft{
		SKU: "tea", Title: "龙井", Price: 9900, Stock: units, StartsAt: start, EndsAt: start.Add(time.Hour), PayWithin: time.Minute,
	}, start)
	if err == nil {
		s, err = l.SetState(t.Context(), "shop", s.ID, sale.Exposed, "", start, sale.Drafted)
	}
	if err != nil {
		t.Fatal(err)
	}
	rs := reservations(s, placed)
	if placed == 0 {
		return s, nil
	}
	if _, err := l.CreateOrders(t.Context(), 1, rs, start); err != nil {
		t.Fatal(err)
	}
	return s, rs
}

// TestFileMode checks that only the owner can read the files of a database.
func TestFileMode(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "m.db"), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.AddMerchant(t.Context(), "alice", "a hash"); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v; want the database and its log at least", len(files), err)
	}
	for _, f := range files {
		if st, err := f.Info(); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want -rw-------", f.Name(), st.Mode(), err)
		}
	}
}
