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

// Config says how a Ledger uses its database. Its zero value works.
type Config struct {
	// Crash is called at the crash points of the ledger.
	Crash crashpoint.Hook

	// NoMigrate refuses a database whose schema is older than this program instead of
	// bringing it up to date.
	NoMigrate bool

	// Conns is how many connections there are at most: 8 if 0. With SQLite these read;
	// one more writes.
	Conns int

	// Timeout bounds every transaction: 10 s if 0. One that takes longer is undone, and
	// its error wraps sale.ErrUnavailable.
	Timeout time.Duration
}

// A Ledger keeps sales and orders in a database. It is safe for concurrent use.
type Ledger struct {
	w, r    *sql.DB // the same in PostgreSQL
	d       dialect
	crash   crashpoint.Hook
	timeout time.Duration
	texts   sync.Map // statements in the dialect, by their texts
	looks   gather[string, sale.Order]
	till    gather[charge, sale.PayResult]
}

var _ sale.Ledger = (*Ledger)(nil)

// Open opens the ledger that dsn names, and brings its schema up to date:
// "postgres://…" (or "postgresql://…"), or "sqlite:PATH", whose file is made if it is not
// there, for its owner alone. "sqlite::memory:" is lost when it is closed.
func Open(ctx context.Context, dsn string, c Config) (*Ledger, error) {
	if c.Conns < 0 || c.Conns > 1000 {
		return nil, fmt.Errorf("ledger: Conns = %d, want 0 to 1000", c.Conns)
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("ledger: Timeout = %v, want 0 or more", c.Timeout)
	}
	if c.Conns == 0 {
		c.Conns = 8
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	l := &Ledger{crash: c.Crash, timeout: c.Timeout}
	l.looks = gather[string, sale.Order]{atOnce: lookers, most: maxLooks, do: l.lookAt}
	l.till = gather[charge, sale.PayResult]{atOnce: 1, most: maxCharges, keys: charge.keys, do: l.take}
	scheme, rest, _ := strings.Cut(dsn, ":")
	var err error
	switch scheme {
	case "postgres", "postgresql":
		err = l.openPostgres(dsn, c)
	case "sqlite":
		err = l.openSQLite(rest, c)
	default: // the name may hold a password: it is not shown
		err = errors.New("ledger: a data source name of an unknown kind, want postgres://… or sqlite:PATH")
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
		// Who is stopped while it holds the row of a sale shall not hold it for ever.
		"idle_in_transaction_session_timeout": ms,
		// A plan that was made when a table was empty is bad for a full one.
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
	l.till.atOnce = min(3, c.Conns)
	return nil
}

func (l *Ledger) openSQLite(path string, c Config) error {
	if path == "" || strings.ContainsRune(path, 0) {
		return fmt.Errorf("ledger: sqlite:%q: want the path of a file", path)
	}
	memory := path == ":memory:"
	if !memory {
		// SQLite would let everybody read what buyers and merchants have told. A file that is
		// there is not opened here: closing it would end the locks that SQLite has on it.
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
	// Orders change pages all over the file. The log is written into it when it has 32 MB:
	// after the usual 4 MB that would be after every batch, and every page once for each.
	wc, err := newPreparer(name + "immediate&_pragma=journal_mode(WAL)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(8000)")
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	w := sql.OpenDB(wc)
	w.SetMaxOpenConns(1) // one writes, so that writers wait in Go and not in the file's lock
	w.SetMaxIdleConns(1)
	l.w, l.r, l.d = w, w, sqlite
	if memory {
		return nil
	}
	rc, err := newPreparer(name + "deferred&_pragma=query_only(1)")
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

// Ping says whether the database answers.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.ask(ctx, "ping", func(tx *tx) error {
		var one int
		return tx.row("SELECT 1").Scan(&one)
	})
}

// Close closes the connections. What is under way is waited for.
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
