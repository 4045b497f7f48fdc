package database

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// Tx is an open transaction, or a database for one statement.
type Tx struct {
	ctx context.Context
	q   querier
	db  *DB
}

type querier interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// Context returns the context of the transaction.
func (x *Tx) Context() context.Context { return x.ctx }

// IsPostgres reports whether the database is PostgreSQL.
func (x *Tx) IsPostgres() bool { return x.db.d.postgres }

// Row executes a query of one row.
func (x *Tx) Row(text string, args ...any) *sql.Row {
	return x.q.QueryRowContext(x.ctx, x.db.text(text), args...)
}

// Exec executes a statement and returns how many rows it changed.
func (x *Tx) Exec(text string, args ...any) (int64, error) {
	res, err := x.q.ExecContext(x.ctx, x.db.text(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// text returns a statement in the dialect of the database, and caches it. There are few statements.
func (db *DB) text(text string) string {
	if s, ok := db.statements.Load(text); ok {
		return s.(string)
	}
	s := db.d.sql(text)
	db.statements.Store(text, s)
	return s
}

// Mode states how the function of Do uses the database.
type Mode int

const (
	Write    Mode = iota // a transaction that changes data
	WriteOne             // one statement that changes data, without an explicit transaction
	Read                 // a read-only transaction with one snapshot
	ReadAll              // as Read, and a statement can take as long as the transaction
	ReadOne              // one statement that reads

	// As Write and ReadOne, for frequent statements that find every row by a key. PostgreSQL
	// plans them once, and then without the sizes of the tables. SQLite commits concurrent
	// functions together; one that fails does not affect the others.
	WriteKeyed
	ReadKeyed
)

// attempts bounds how often a transaction is tried after deadlocks.
const attempts = 5

// Do runs f, and commits its transaction if f succeeds. It tries again after a deadlock.
func (db *DB) Do(ctx context.Context, m Mode, f func(*Tx) error) error {
	if db.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.timeout)
		defer cancel()
	}
	for i := 1; ; i++ {
		err := db.once(ctx, m, f)
		if err == nil || i == attempts || kindOf(err) != retry {
			return unavailableError(err)
		}
		wait := time.NewTimer(time.Duration(i*i) * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return unavailableError(err)
		}
	}
}

func (db *DB) once(ctx context.Context, m Mode, f func(*Tx) error) error {
	pool := db.w
	if m != Write && m != WriteOne && m != WriteKeyed {
		pool = db.r
	}
	if keyed := m == WriteKeyed || m == ReadKeyed; keyed && db.keyed != nil {
		pool = db.keyed
	}
	if m == WriteKeyed && !db.d.postgres {
		return db.writeTogether(ctx, f)
	}
	if m == ReadOne || m == ReadKeyed || m == WriteOne && db.wal == nil {
		if err := f(&Tx{ctx: ctx, q: pool, db: db}); err != nil {
			return err
		}
		return db.wal.waitAll(ctx)
	}
	var opts *sql.TxOptions
	if m != Write && m != WriteKeyed && db.d.postgres {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	commit, err := db.transaction(ctx, pool, opts, func(x *Tx) error {
		if m == ReadAll && db.d.postgres {
			if _, err := x.q.ExecContext(ctx, "SET LOCAL statement_timeout = "+strconv.FormatInt(db.timeout.Milliseconds()+1, 10)); err != nil {
				return err
			}
		}
		return f(x)
	})
	if err != nil {
		return err
	}
	if pool == db.w {
		return db.wal.waitCommit(commit)
	}
	return db.wal.waitAll(ctx)
}

// transaction runs f in a transaction, and commits it if f succeeds. In SQLite it returns the number
// of the commit, which is not durable yet.
func (db *DB) transaction(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, f func(*Tx) error) (commit int64, err error) {
	t, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = t.Rollback() }() // no effect after Commit
	if err := f(&Tx{ctx: ctx, q: t, db: db}); err != nil {
		return 0, err
	}
	if pool == db.w {
		if commit, err = db.wal.begin(); err != nil {
			return 0, err
		}
		defer db.wal.end(commit)
	}
	if err := t.Commit(); err != nil {
		return commit, fmt.Errorf("commit: %w", err)
	}
	return commit, nil
}

// Exec executes one statement that changes data, without an explicit transaction.
func (db *DB) Exec(ctx context.Context, text string, args ...any) error {
	return db.Do(ctx, WriteOne, func(x *Tx) error {
		_, err := x.Exec(text, args...)
		return err
	})
}

// List returns all rows of a query.
func List[T any](x *Tx, scan func(func(...any) error) (T, error), text string, args ...any) ([]T, error) {
	rows, err := x.q.QueryContext(x.ctx, x.db.text(text), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has its error
	var all []T
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
