//go:build unix && !onlyredis

package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/pgstore"
	"github.com/floodweir/weir/storetest"
)

// openPostgres opens a database of a server, with the schema of package pgstore.
func openPostgres(tb testing.TB, s *pgtest.Server) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", s.DSN(s.NewDB(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	// A connection compiles the functions on its first call, which takes as long as many calls.
	db.SetMaxIdleConns(100)
	p, err := goose.NewProvider(goose.DialectPostgres, db, pgstore.Migrations())
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := p.Up(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return db
}

func newPostgresStore(tb testing.TB, db *sql.DB, c pgstore.Config) *pgstore.Store {
	tb.Helper()
	if c.Timeout == 0 {
		c.Timeout = patient
	}
	s, err := pgstore.New(db, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

var postgresPrefixes atomic.Int64

// postgresHarness makes stores for package storetest, each with its own rows and a clock that
// the test sets.
func postgresHarness(db *sql.DB) storetest.Open {
	return func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		store := newPostgresStore(tb, db, pgstore.Config{Prefix: fmt.Sprint("t", postgresPrefixes.Add(1)), Clock: now.Load})
		return storetest.Harness{Store: store, SetNow: now.Store}
	}
}

// TestPostgres runs the suite of every store and tests of package pgstore on one server, each on a
// database of its own.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.StartVolatile(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *sql.DB)
	}{
		{"conformance", func(t *testing.T, db *sql.DB) { storetest.Run(t, postgresHarness(db)) }},
		{"differential", func(t *testing.T, db *sql.DB) {
			storetest.Differential(t, postgresHarness(db), storetest.DiffConfig{Seed: *redisSeed, Decisions: *redisDecisions})
		}},
		{"one call", postgresOneCall},
		{"many callers", postgresManyCallers},
		{"sweep", postgresSweep},
	} {
		db := openPostgres(t, server)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, db)
		})
	}
}

// quota is a limit of which nothing comes back during a test.
func quota(n int) weir.Limit { return weir.MustLimit(fmt.Sprintf("%d/24h fixed_window", n)) }

// postgresOneCall checks that one call of weir_decide decides the usual requests: the database
// has no other function that could.
func postgresOneCall(t *testing.T, db *sql.DB) {
	if _, err := db.Exec("DROP FUNCTION weir_read, weir_swap"); err != nil {
		t.Fatal(err)
	}
	store := newPostgresStore(t, db, pgstore.Config{})
	var batch []weir.Request
	for _, text := range []string{
		"5/s burst 8", "5/s interval", "5/s leaky_bucket burst 4 queue", "5/s leaky_bucket nginx burst 4",
		"5/m fixed_window", "5/day calendar Asia/Shanghai", "5/m sliding_window", "5/m sliding_window segments 1 weighted",
	} {
		l := weir.MustLimit(text)
		for v := weir.Take; v <= weir.Return; v++ {
			if _, err := store.Do(t.Context(), weir.Request{Verb: v, Key: "k", Limit: l, N: 1}); err != nil {
				t.Errorf("%s under %s: %v", v, text, err)
			}
		}
		batch = append(batch, weir.Request{Key: "b", Limit: l.Named("n" + text), N: 2})
	}
	if ok, err := store.DoAll(t.Context(), batch, make([]weir.Decision, len(batch))); !ok || err != nil {
		t.Errorf("DoAll = %v, %v, want true", ok, err)
	}
}

// postgresManyCallers checks that callers of two stores get exactly the tokens of a key, by
// both ways in which requests are decided, and batches of two keys in both orders.
func postgresManyCallers(t *testing.T, db *sql.DB) {
	stores := []*pgstore.Store{newPostgresStore(t, db, pgstore.Config{}), newPostgresStore(t, db, pgstore.Config{})}
	const most = 300
	l := quota(most)
	var batches, single atomic.Int64
	var callers sync.WaitGroup
	for i := range 24 {
		callers.Go(func() {
			ctx, store := t.Context(), stores[i%2]
			for n := 0; ; n++ {
				r := weir.Request{Key: "one", Limit: l, N: 1}
				if n%2 == 0 {
					r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprint(i, " ", n), time.Hour
				}
				d, err := store.Do(ctx, r)
				rs := []weir.Request{{Key: "left", Limit: l, N: 1}, {Key: "right", Limit: l, N: 1}}
				if i%2 == 0 {
					slices.Reverse(rs)
				}
				ok, errAll := store.DoAll(ctx, rs, make([]weir.Decision, 2))
				if err != nil || errAll != nil {
					t.Errorf("caller %d: %v, %v", i, err, errAll)
					return
				}
				if ok {
					batches.Add(1)
				}
				single.Add(d.Granted)
				if !d.OK && !ok {
					return
				}
			}
		})
	}
	callers.Wait()
	if b, n := batches.Load(), single.Load(); b != most || n != most {
		t.Errorf("%d batches and %d single requests admitted, want %d of each", b, n, most)
	}
	for _, key := range []string{"one", "left", "right"} {
		if d, err := stores[0].Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: l, N: 1}); err != nil || d.Remaining != 0 || d.Debt != 0 {
			t.Errorf("%s has %d remaining, %d owed, %v, want 0", key, d.Remaining, d.Debt, err)
		}
	}
}

// TestPostgresCrash kills the server while callers take tokens. The admissions before and
// after are at most the limit, and fewer only by the requests whose result was lost.
func TestPostgresCrash(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t) // with synchronous_commit
	store := newPostgresStore(t, openPostgres(t, server), pgstore.Config{})
	const most, kill = 400, 150
	l := quota(most)
	var admitted, lost atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				d, err := store.Do(t.Context(), weir.Request{Key: "k", Limit: l, N: 1})
				switch {
				case err != nil:
					lost.Add(1)
					return
				case !d.OK:
					return
				case admitted.Add(1) >= kill:
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	server.Kill()
	callers.Wait()
	server.Start(t)
	for {
		d, err := store.Do(t.Context(), weir.Request{Key: "k", Limit: l, N: 1})
		if err != nil {
			lost.Add(1) // a connection to the server before
			if lost.Load() > most {
				t.Fatal(err)
			}
			continue
		}
		if !d.OK {
			break
		}
		admitted.Add(1)
	}
	if got := admitted.Load(); got > most || got < most-lost.Load() {
		t.Errorf("%d admitted and %d lost, want %d together at least, and no more admitted", got, lost.Load(), most)
	}
	postgresErrors(t, server, store)
}

// postgresSweep checks that writers delete expired rows.
func postgresSweep(t *testing.T, db *sql.DB) {
	var now atomic.Int64
	now.Store(1_800_000_000_000_000)
	store := newPostgresStore(t, db, pgstore.Config{Clock: now.Load})
	rows := func() (n int) {
		if err := db.QueryRow("SELECT count(*) FROM weir_states").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const keys = 600
	for round := range 6 {
		now.Add(time.Hour.Microseconds())
		for first := 0; first < keys; first += 100 {
			rs := make([]weir.Request, 100)
			for i := range rs {
				rs[i] = weir.Request{Key: fmt.Sprint(round, "-", first+i), Limit: weir.MustLimit("1/s burst 5"), N: 1}
			}
			if ok, err := store.DoAll(t.Context(), rs, make([]weir.Decision, len(rs))); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	if n := rows(); n > 2*keys {
		t.Errorf("%d rows after 6 rounds of %d keys, of which the last are in use, want at most twice as many", n, keys)
	}
}

// postgresErrors checks the errors of a server without the schema, and of store without its
// server.
func postgresErrors(t *testing.T, server *pgtest.Server, store *pgstore.Store) {
	db, err := sql.Open("pgx", server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := weir.Request{Key: "k", Limit: weir.MustLimit("1/s"), N: 1}
	_, err = newPostgresStore(t, db, pgstore.Config{}).Do(t.Context(), r)
	if !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "pgstore.Migrations") {
		t.Errorf("without the schema: %v, want ErrUnavailable that names pgstore.Migrations", err)
	}
	server.Kill()
	if _, err := store.Do(t.Context(), r); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("without a server: %v, want ErrUnavailable", err)
	}
	store.Close()
	if _, err := store.Do(t.Context(), r); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
