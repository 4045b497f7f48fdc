// Package database runs the statements of a ledger in PostgreSQL or SQLite: connections,
// dialects, transactions, migrations and kinds of errors. Errors of an unavailable database wrap
// sale.ErrUnavailable and the cause.
package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Config configures a DB. Conns and Timeout are required.
type Config struct {
	NoMigrate bool          // refuse an older schema instead of migrating it
	Conns     int           // the maximum number of connections; with SQLite one more writes
	Timeout   time.Duration // of a transaction, with its repetitions
}

// Time limits of PostgreSQL connections with a Config.Timeout of up to 10 s. A longer one makes
// them longer in proportion, a shorter one cuts them.
const (
	lockWithin      = 2 * time.Second // for waiting for a lock
	statementWithin = 5 * time.Second // of a statement, and between the statements of a transaction
)

// DB is an open database. It is safe for concurrent use.
type DB struct {
	w, r       *sql.DB  // the same in PostgreSQL
	keyed      *sql.DB  // PostgreSQL: for WriteKeyed and ReadKeyed; nil for none
	groups     groups   // SQLite: functions of WriteKeyed
	wal        *walSync // SQLite in a file
	d          dialect
	timeout    time.Duration // 0: none
	statements sync.Map      // statements in the dialect, by text
}

// Open opens the database at dsn, "postgres://…", "postgresql://…" or "sqlite:PATH", and
// migrates its schema.
func Open(ctx context.Context, dsn string, c Config) (*DB, error) {
	db := &DB{timeout: c.Timeout}
	migrator := &DB{} // without time limits: an index of a large table takes minutes
	scheme, rest, _ := strings.Cut(dsn, ":")
	var err error
	switch scheme {
	case "postgres", "postgresql":
		if err = db.openPostgres(dsn, c); err == nil {
			err = migrator.openPostgres(dsn, Config{Conns: 2})
			defer migrator.Close()
		}
	case "sqlite":
		err = db.openSQLite(rest, c)
		migrator.w, migrator.r, migrator.d = db.w, db.r, db.d
	default: // dsn may contain a password
		err = errors.New("dsn: unknown scheme, want postgres://… or sqlite:PATH")
	}
	if err != nil {
		return nil, err
	}
	err = db.Do(ctx, ReadOne, func(x *Tx) error { return x.Row("SELECT 1").Scan(new(int)) }) // it replies in time
	if err == nil {
		err = migrator.migrate(ctx, c.NoMigrate)
	}
	if err == nil {
		err = db.wal.sync() // what the migrations have written
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return db, nil
}

func (db *DB) openPostgres(dsn string, c Config) error {
	pc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err // pgx hides the password
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = min(cmp.Or(c.Timeout, time.Minute), 5*time.Second)
	}
	// A process that stops in a transaction keeps the row of a sale locked until the server ends
	// its session. Other processes wait for a lock for a shorter time, and try again.
	limit := func(most time.Duration) string {
		if c.Timeout == 0 {
			return "0" // none
		}
		most = min(max(most, most*(c.Timeout/time.Millisecond)/10_000), c.Timeout)
		return fmt.Sprint(most.Milliseconds() + 1)
	}
	for k, v := range map[string]string{
		"synchronous_commit":            "on",
		"default_transaction_isolation": "read committed",
		"lock_timeout":                  limit(lockWithin),
		"statement_timeout":             limit(statementWithin),

		"idle_in_transaction_session_timeout": limit(statementWithin),
		// A plan for an empty table is slow when the table is full.
		"plan_cache_mode":  "force_custom_plan",
		"application_name": "flashsale",
	} {
		if k != "application_name" || pc.RuntimeParams[k] == "" {
			pc.RuntimeParams[k] = v
		}
	}
	open := func(conns int) *sql.DB {
		pool := stdlib.OpenDB(*pc)
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		pool.SetConnMaxIdleTime(5 * time.Minute)
		return pool
	}
	keyed := c.Conns * 5 / 8
	db.w = open(c.Conns - keyed)
	db.r, db.d = db.w, postgres
	if keyed > 0 {
		// A statement is planned once for a connection and not at each call. Without sequential
		// scans, a plan for an empty table reads a full one by its keys too.
		pc = pc.Copy()
		for k, v := range map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"} {
			pc.RuntimeParams[k] = v
		}
		db.keyed = open(keyed)
	}
	return nil
}

func (db *DB) openSQLite(path string, c Config) error {
	if path == "" || strings.ContainsRune(path, 0) {
		return fmt.Errorf("sqlite:%q: want the path of a file", path)
	}
	memory := path == ":memory:"
	if !memory {
		// SQLite would create a file that other users can read. An existing file is not opened
		// here, because closing it would release the locks that SQLite has on it.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %w", sale.ErrUnavailable, err)
		}
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(" + fmt.Sprint(c.Timeout.Milliseconds()) +
		")&_pragma=foreign_keys(1)&_txlock="
	if memory {
		name = "file::memory:?_pragma=foreign_keys(1)&_txlock="
	}
	// Orders change pages all over the file. The log is checkpointed at 32 MB; at the default of
	// 4 MB that would happen after every batch. The pages that a statement would undo stay in
	// memory; by default those of a batch are written to a temporary file. The cache is small: nearly
	// every commit searches all of it for pages to drop, because SQLite moves a page behind the last
	// one and back when it divides a leaf. Reading other pages from the system costs less.
	wc, err := newSQLiteConnector(name + "immediate&_pragma=synchronous(NORMAL)&_pragma=journal_mode(WAL)&_pragma=cache_size(-4096)&_pragma=wal_autocheckpoint(8000)&_pragma=temp_store(MEMORY)")
	if err != nil {
		return err
	}
	w := sql.OpenDB(wc)
	w.SetMaxOpenConns(1) // writers wait in Go instead of for the file lock
	w.SetMaxIdleConns(1)
	db.w, db.r, db.d = w, w, sqlite
	if memory {
		return nil
	}
	db.wal = newWALSync(path)
	rc, err := newSQLiteConnector(name + "deferred&_pragma=query_only(1)")
	if err != nil {
		_ = w.Close()
		return err
	}
	r := sql.OpenDB(rc)
	r.SetMaxOpenConns(c.Conns)
	r.SetMaxIdleConns(c.Conns)
	db.r = r
	return nil
}

// IsPostgres reports whether the database is PostgreSQL.
func (db *DB) IsPostgres() bool { return db.d.postgres }

// Close closes the connections, after the statements in progress.
func (db *DB) Close() error {
	err := errors.Join(db.wal.close(), db.w.Close())
	if db.r != db.w {
		err = errors.Join(db.r.Close(), err)
	}
	if db.keyed != nil {
		err = errors.Join(db.keyed.Close(), err)
	}
	return err
}
