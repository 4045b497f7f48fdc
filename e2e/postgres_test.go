//go:build unix

package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

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

// fastPostgres are settings of a server whose data need not survive a crash of the machine.
var fastPostgres = []string{"synchronous_commit=off"}

// TestPostgresConformance runs the suite of every store on a PostgreSQL server.
func TestPostgresConformance(t *testing.T) {
	t.Parallel()
	open := postgresHarness(openPostgres(t, pgtest.Start(t, fastPostgres...)))
	storetest.Run(t, open)
	t.Run("differential", func(t *testing.T) {
		storetest.Differential(t, open, storetest.DiffConfig{Seed: *redisSeed, Decisions: *redisDecisions})
	})
}
