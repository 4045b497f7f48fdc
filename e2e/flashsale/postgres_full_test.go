package flashsale_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestPostgresFull fills the disk of a database: writes return ErrUnavailable, existing rows can
// be read, and writes succeed again when there is space. If the test cannot mount a small disk,
// the server simulates a full one.
func TestPostgresFull(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	db := server.NewDB(t)
	more := func(int) { server.Exec(t, db, "DROP TRIGGER full_disk ON orders") }
	resize, real := server.SmallDisk(t, "small", 16)
	if real {
		more = resize
		server.Exec(t, "postgres", "ALTER DATABASE "+db+" SET TABLESPACE small")
	}
	l := openPostgres(t, server.DSN(db), ledger.Config{})
	s := stockedLedger(t, l, 1_000_000)
	placed := 0
	place := func(n int) error {
		got, err := l.CreateOrders(t.Context(), 1, someReservations(s, n), postgresStart)
		for _, p := range got {
			if p.New && p.State == sale.PendingPay {
				placed++
			}
		}
		return err
	}
	if err := place(100); err != nil {
		t.Fatal(err)
	}
	if !real {
		server.Exec(t, db, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`,
			"CREATE TRIGGER full_disk BEFORE INSERT ON orders EXECUTE FUNCTION full_disk()")
	}
	var full error
	for full == nil {
		if placed > 200_000 {
			t.Fatal("the disk is never full")
		}
		full = place(500)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](full); !ok || pg.Code != "53100" || !errors.Is(full, sale.ErrUnavailable) {
		t.Fatalf("a full disk: %v, want 53100 and unavailable", full)
	}
	if got := checkTotals(t, l, s); got.Pending != int64(placed) {
		t.Fatalf("%d orders, want %d", got.Pending, placed)
	}
	more(48)
	if err := place(500); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	if got := checkTotals(t, l, s); got.Pending != int64(placed) {
		t.Fatalf("%d orders, want %d", got.Pending, placed)
	}
	if strings.Contains(server.Log(), "PANIC") {
		t.Error("the server panicked")
	}
	t.Logf("a real full disk: %v, %d orders", real, placed)
}
