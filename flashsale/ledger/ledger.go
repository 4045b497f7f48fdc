package ledger

import (
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

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Config configures a Ledger. The zero value works.
type Config struct {
	// Crash is called at the crash points of the ledger.
	Crash crashpoint.Hook

	// NoMigrate makes Open refuse a database with an older schema. Otherwise Open migrates it.
	NoMigrate bool

	// Conns is the maximum number of connections: 8 if 0. With SQLite these read, and one more
	// writes.
	Conns int

	// Timeout bounds every transaction: 10 s if 0. A longer one is rolled back, and its error
	// wraps sale.ErrUnavailable.
	Timeout time.Duration
}

// Ledger implements sale.Ledger in a database. It is safe for concurrent use.
type Ledger struct {
	w, r       *sql.DB // the same in PostgreSQL
	d          dialect
	crash      crashpoint.Hook
	timeout    time.Duration
	statements sync.Map // statements in the dialect, by text
	orderReads coalescer[string, sale.Order]
	payments   coalescer[charge, sale.PayResult]
}

var _ sale.Ledger = (*Ledger)(nil)

// Open opens the ledger at dsn and migrates its schema. dsn is "postgres://…" (or
// "postgresql://…"), or "sqlite:PATH", whose file is created for its owner alone. The data of
// "sqlite::memory:" is lost on Close.
func Open(ctx context.Context, dsn string, c Config) (*Ledger, error) {
	if c.Conns < 0 || c.Conns > 1000 {
		return nil, fmt.Errorf("ledger: Conns: got %d, want 0 to 1000", c.Conns)
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("ledger: Timeout: got %v, want 0 or more", c.Timeout)
	}
	if c.Conns == 0 {
		c.Conns = 8
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	l := &Ledger{crash: c.Crash, timeout: c.Timeout}
	l.orderReads = coalescer[string, sale.Order]{maxCalls: maxOrderReads, maxBatch: maxOrderBatch, run: l.readOrders}
	l.payments = coalescer[charge, sale.PayResult]{maxCalls: 1, maxBatch: maxPayBatch, keys: charge.keys, run: l.payBatch}
	scheme, rest, _ := strings.Cut(dsn, ":")
	var err error
	switch scheme {
	case "postgres", "postgresql":
		err = l.openPostgres(dsn, c)
	case "sqlite":
		err = l.openSQLite(rest, c)
	default: // dsn may contain a password
		err = errors.New("ledger: dsn: unknown scheme, want postgres://… or sqlite:PATH")
	}
	if err != nil {
		return nil, err
	}
	if err := l.migrate(ctx, c.NoMigrate); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) openPostgres(dsn string, c Config) error {
	pc, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("ledger: %w", err) // pgx hides the password
	}
	if pc.ConnectTimeout == 0 {
		pc.ConnectTimeout = min(c.Timeout, 5*time.Second)
	}
	ms := fmt.Sprint(c.Timeout.Milliseconds() + 1)
	for k, v := range map[string]string{
		"synchronous_commit":            "on",
		"default_transaction_isolation": "read committed",
		"statement_timeout":             ms,
		// A client that stops in a transaction must not lock the row of a sale for ever.
		"idle_in_transaction_session_timeout": ms,
		// A plan for an empty table is slow when the table is full.
		"plan_cache_mode":  "force_custom_plan",
		"application_name": "flashsale",
	} {
		if k != "application_name" || pc.RuntimeParams[k] == "" {
			pc.RuntimeParams[k] = v
		}
	}
	db := stdlib.OpenDB(*pc)
	db.SetMaxOpenConns(c.Conns)
	db.SetMaxIdleConns(c.Conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	l.w, l.r, l.d = db, db, postgres
	l.payments.maxCalls = min(3, c.Conns)
	return nil
}

func (l *Ledger) openSQLite(path string, c Config) error {
	if path == "" || strings.ContainsRune(path, 0) {
		return fmt.Errorf("ledger: sqlite:%q: want the path of a file", path)
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
			return fmt.Errorf("ledger: %w: %w", sale.ErrUnavailable, err)
		}
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(" + fmt.Sprint(c.Timeout.Milliseconds()) +
		")&_pragma=foreign_keys(1)&_pragma=synchronous(FULL)&_txlock="
	if memory {
		name = "file::memory:?_pragma=foreign_keys(1)&_txlock="
	}
	// Orders change pages all over the file. The log is checkpointed at 32 MB; at the default of
	// 4 MB that would happen after every batch.
	wc, err := newSQLiteConnector(name + "immediate&_pragma=journal_mode(WAL)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(8000)")
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	w := sql.OpenDB(wc)
	w.SetMaxOpenConns(1) // writers wait in Go instead of for the file lock
	w.SetMaxIdleConns(1)
	l.w, l.r, l.d = w, w, sqlite
	if memory {
		return nil
	}
	rc, err := newSQLiteConnector(name + "deferred&_pragma=query_only(1)")
	if err != nil {
		_ = w.Close()
		return fmt.Errorf("ledger: %w", err)
	}
	r := sql.OpenDB(rc)
	r.SetMaxOpenConns(c.Conns)
	r.SetMaxIdleConns(c.Conns)
	l.r = r
	return nil
}

// Ping implements sale.Ledger.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.readOne(ctx, "ping", func(tx *tx) error {
		var one int
		return tx.row("SELECT 1").Scan(&one)
	})
}

// Close closes the connections, after the statements in progress.
func (l *Ledger) Close() error {
	err := l.w.Close()
	if l.r != l.w {
		err = errors.Join(l.r.Close(), err)
	}
	if err != nil {
		return fmt.Errorf("ledger: close: %w", err)
	}
	return nil
}
