package flashsale_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var postgresStart = time.Date(2031, 5, 1, 10, 0, 0, 0, time.UTC)

// stockedLedger creates an exposed sale.
func stockedLedger(t testing.TB, l sale.Ledger, units int64) sale.Sale {
	t.Helper()
	s, err := l.Create(t.Context(), "shop", "", sale.Draft{
		SKU: "tea", Title: "龙井", Price: 9900, Stock: units, StartsAt: postgresStart, EndsAt: postgresStart.Add(time.Hour), PayWithin: time.Minute,
	}, postgresStart)
	if err == nil {
		s, err = l.SetState(t.Context(), "shop", s.ID, sale.Exposed, "", postgresStart, sale.Drafted)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func someReservations(s sale.Sale, n int) []sale.Reservation {
	rs := make([]sale.Reservation, n)
	for i := range rs {
		rs[i] = sale.Reservation{
			ID: rand.Text(), Sale: s.ID, Epoch: 1, User: rand.Text(), Slot: 1, Ticket: rand.Text(),
			At: postgresStart, PayBy: postgresStart.Add(time.Minute),
		}
	}
	return rs
}

// checkTotals fails the test unless the totals of a sale are consistent.
func checkTotals(t testing.TB, l sale.Ledger, s sale.Sale) sale.OrderTotals {
	t.Helper()
	got, err := l.Totals(t.Context(), s.ID)
	if err == nil {
		err = ledgertest.Agrees(got)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestPostgresKilled kills the server under the load of two programs, restarts it, and stops it
// for a while. Every call returns a result or ErrUnavailable, results are never lost, and no
// order is created twice.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	db := server.NewDB(t)
	var programs [2]*ledger.Ledger
	for i := range programs {
		programs[i] = openPostgres(t, server.DSN(db), ledger.Config{Timeout: time.Second})
	}
	s := stockedLedger(t, programs[0], 5_000)
	work := &killedLoad{t: t, s: s, ctx: t.Context(), known: map[string]sale.OrderState{}}
	over, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := 0; over.Err() == nil; n++ {
				work.round(programs[i%2], i, n)
			}
		})
	}
	for i := range count(3, 20) {
		work.awaitProgress(100)
		switch i % 3 {
		case 0:
			server.Kill()
			server.Start(t)
		case 1:
			server.Pause()
			work.awaitUnavailable()
			server.Cont()
		case 2:
			server.Stop()
			work.awaitUnavailable()
			server.Start(t)
		}
	}
	work.awaitProgress(100)
	stop()
	all.Wait()
	got := checkTotals(t, programs[0], s)
	for id, want := range work.known {
		o, err := programs[1].Order(t.Context(), id)
		if err != nil || o.State != want {
			t.Errorf("order %s is %s, %v; the call returned %s", id, o.State, err, want)
		}
	}
	if got.Sale.Sold > 5_000 || work.unavailable.Load() == 0 {
		t.Errorf("%+v, %d calls returned ErrUnavailable", got, work.unavailable.Load())
	}
	t.Logf("%d orders, %d results, %d calls unavailable; %+v", len(work.known), work.done.Load(), work.unavailable.Load(), got)
	if log := server.Log(); strings.Contains(log, "deadlock detected") {
		t.Error("there was a deadlock")
	}
}

// A killedLoad makes calls while their server is killed, and records the results.
type killedLoad struct {
	t                 *testing.T
	s                 sale.Sale
	ctx               context.Context
	done, unavailable atomic.Int64
	mu                sync.Mutex
	known             map[string]sale.OrderState // the final state of each order
}

// retry repeats a call until it returns a result.
func (w *killedLoad) retry(what string, f func() error) {
	for tries := 0; ; tries++ {
		err := f()
		switch {
		case err == nil:
			w.done.Add(1)
			return
		case !errors.Is(err, sale.ErrUnavailable):
			w.t.Errorf("%s: %v, want nil or ErrUnavailable", what, err)
			return
		case w.ctx.Err() != nil, tries > 2000:
			w.t.Errorf("%s: %v", what, err)
			return
		}
		w.unavailable.Add(1)
		until(w.ctx, time.Now().Add(20*time.Millisecond))
	}
}

// round creates a batch of orders, pays a third and cancels a third. The others must not expire,
// so that their state is known.
func (w *killedLoad) round(l *ledger.Ledger, who, n int) {
	rs := someReservations(w.s, 9)
	var placed []sale.OrderResult
	w.retry("Place", func() (err error) { placed, err = l.CreateOrders(w.ctx, 1, rs, postgresStart); return err })
	for i, r := range rs {
		if i >= len(placed) {
			return
		}
		state := placed[i].State
		if state == sale.PendingPay {
			switch i % 3 {
			case 0:
				w.retry("Pay", func() error {
					p, err := l.Pay(w.ctx, sale.Payment{ID: fmt.Sprintf("p-%d-%d-%d", who, n, i), Reservation: r.ID, Amount: 9900}, postgresStart)
					if err == nil && p.RefundDue {
						return fmt.Errorf("a refund: %+v", p)
					}
					return err
				})
				state = sale.Paid
			case 1:
				w.retry("Cancel", func() error { _, err := l.Cancel(w.ctx, r.User, r.ID, postgresStart); return err })
				state = sale.Cancelled
			}
		}
		w.mu.Lock()
		w.known[r.ID] = state
		w.mu.Unlock()
	}
}

// awaitProgress waits for n more results.
func (w *killedLoad) awaitProgress(n int64) {
	from := w.done.Load()
	redistest.Await(w.t, "the programs go on", func() error {
		if now := w.done.Load(); now < from+n {
			return fmt.Errorf("%d more results, want %d", now-from, n)
		}
		return nil
	})
}

// awaitUnavailable waits until calls return ErrUnavailable.
func (w *killedLoad) awaitUnavailable() {
	from := w.unavailable.Load()
	redistest.Await(w.t, "calls are unavailable", func() error {
		if w.unavailable.Load() == from {
			return errors.New("none was")
		}
		return nil
	})
}

// TestPostgresMigrate opens a database by several programs at once, and a newer database.
func TestPostgresMigrate(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, &ledgers)
	if _, err := ledger.Open(t.Context(), dsn, ledger.Config{NoMigrate: true}); err == nil || !strings.Contains(err.Error(), "has version 0 and this program needs") {
		t.Fatalf("NoMigrate: %v", err)
	}
	openTogether(t, dsn, 4)
	// A database from before goose, with its versions in another table.
	for _, q := range []string{
		"CREATE TABLE migrations (version int PRIMARY KEY, at bigint NOT NULL)",
		"INSERT INTO migrations SELECT version_id, 0 FROM goose_db_version WHERE version_id > 0",
		"DROP TABLE goose_db_version",
	} {
		execute(t, dsn, q)
	}
	stockedLedger(t, openPostgres(t, dsn, ledger.Config{}), 3)
	execute(t, dsn, "SELECT 1 / (1 - count(*)) FROM pg_tables WHERE tablename = 'migrations'") // fails if the table exists
	execute(t, dsn, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, TRUE)")
	if _, err := ledger.Open(t.Context(), dsn, ledger.Config{}); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Fatalf("a newer database: %v", err)
	}
}

// TestPostgresLongMigration checks that a migration may take longer than a transaction: another
// program locks the table of the versions for that time.
func TestPostgresLongMigration(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, &ledgers)
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback()
	if _, err := lock.Exec("CREATE TABLE goose_db_version (version_id bigint)"); err != nil {
		t.Fatal(err)
	}
	const timeout = 1500 * time.Millisecond
	opened := make(chan error, 1)
	go func() {
		l, err := ledger.Open(t.Context(), dsn, ledger.Config{Timeout: timeout})
		if err == nil {
			err = l.Close()
		}
		opened <- err
	}()
	redistest.Await(t, "the migration waits", func() error {
		var waits bool
		err := db.QueryRow("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND now() - query_start > $1::interval",
			(timeout + timeout/4).String()).Scan(&waits)
		if err == nil && !waits {
			err = errors.New("no query waits for a lock")
		}
		return err
	})
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("Open: %v", err)
	}
}

// TestPostgresGuards runs statements that break the rules: a constraint refuses each.
func TestPostgresGuards(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t, &ledgers)
	l := openPostgres(t, dsn, ledger.Config{})
	s := stockedLedger(t, l, 3)
	rs := someReservations(s, 2)
	if _, err := l.CreateOrders(t.Context(), 1, rs, postgresStart); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Pay(t.Context(), sale.Payment{ID: "p1", Reservation: rs[0].ID, Amount: 9900}, postgresStart); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	for _, q := range ledgertest.InvalidStatements() {
		_, err := c.Exec(t.Context(), q)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.HasPrefix(pg.Code, "23") {
			t.Errorf("%s: %v, want a constraint", q, err)
		}
	}
	checkTotals(t, l, s)
}

// TestPostgresSlow calls a server that is slow, read-only, or has no connection left.
func TestPostgresSlow(t *testing.T) {
	t.Parallel()
	server := pgtest.StartVolatile(t, "max_connections=12", "superuser_reserved_connections=2")
	db := server.NewDB(t)
	l := openPostgres(t, server.DSN(db), ledger.Config{Timeout: time.Second, Conns: 2})
	s := stockedLedger(t, l, 100)
	rs := someReservations(s, 10)
	place := func(what string, want error) {
		t.Helper()
		if _, err := l.CreateOrders(t.Context(), 1, rs, postgresStart); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	c, err := pgx.Connect(t.Context(), server.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	do := func(q string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	do("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
	place("while the table is locked", sale.ErrUnavailable)
	do("ROLLBACK")
	place("afterwards", nil)

	rs = someReservations(s, 10)
	server.Pause()
	place("while the server stands still", sale.ErrUnavailable)
	server.Cont()
	redistest.Await(t, "it answers", func() error { return l.Ping(t.Context()) })
	place("afterwards", nil)

	rs = someReservations(s, 10)
	do("ALTER DATABASE " + db + " SET default_transaction_read_only = on")
	readOnly := openPostgres(t, server.DSN(db), ledger.Config{Conns: 1})
	if _, err := readOnly.CreateOrders(t.Context(), 1, rs, postgresStart); !errors.Is(err, sale.ErrUnavailable) {
		t.Fatalf("read-only: %v, want unavailable", err)
	}
	if got := checkTotals(t, readOnly, s); got.Pending != 20 {
		t.Fatalf("%d orders, want 20", got.Pending)
	}
}

// TestPostgresOtherEnds ends every connection of a program, as an operator would: calls succeed
// again at once.
func TestPostgresOtherEnds(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t, &ledgers)
	l := openPostgres(t, dsn, ledger.Config{Conns: 4})
	s := stockedLedger(t, l, 100)
	for range 5 {
		execute(t, dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		redistest.Await(t, "it answers", func() error {
			_, err := l.CreateOrders(t.Context(), 1, someReservations(s, 1), postgresStart)
			if err != nil && !errors.Is(err, sale.ErrUnavailable) {
				t.Fatal(err)
			}
			return errors.Join(err, l.Ping(t.Context())) // on another connection
		})
	}
	checkTotals(t, l, s)
}

func BenchmarkPostgresPlace(b *testing.B) {
	l := openPostgres(b, newDatabase(b, &ledgers), ledger.Config{})
	s := stockedLedger(b, l, 1_000_000)
	const n = 200
	for b.Loop() {
		if _, err := l.CreateOrders(b.Context(), 1, someReservations(s, n), postgresStart); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "orders/s")
}

func BenchmarkPostgresPay(b *testing.B) {
	l := openPostgres(b, newDatabase(b, &ledgers), ledger.Config{})
	s := stockedLedger(b, l, 1_000_000)
	var rs []sale.Reservation
	for range 50 {
		more := someReservations(s, 1000)
		if _, err := l.CreateOrders(b.Context(), 1, more, postgresStart); err != nil {
			b.Fatal(err)
		}
		rs = append(rs, more...)
	}
	var next atomic.Int64
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := next.Add(1) - 1
			if _, err := l.Pay(b.Context(), sale.Payment{ID: fmt.Sprint("p", i), Reservation: rs[i%int64(len(rs))].ID, Amount: 9900}, postgresStart); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
}
