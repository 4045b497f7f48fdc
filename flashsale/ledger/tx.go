package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// tx is an open transaction, or a database for one statement.
type tx struct {
	ctx context.Context
	q   querier
	l   *Ledger
}

type querier interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

func (x *tx) row(text string, args ...any) *sql.Row {
	return x.q.QueryRowContext(x.ctx, x.l.text(text), args...)
}

func (x *tx) rows(text string, args ...any) (*sql.Rows, error) {
	return x.q.QueryContext(x.ctx, x.l.text(text), args...)
}

// exec executes a statement and returns how many rows it changed.
func (x *tx) exec(text string, args ...any) (int64, error) {
	res, err := x.q.ExecContext(x.ctx, x.l.text(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// text returns a statement in the ledger's dialect, and caches it. There are few statements.
func (l *Ledger) text(text string) string {
	if s, ok := l.statements.Load(text); ok {
		return s.(string)
	}
	s := l.d.sql(text)
	l.statements.Store(text, s)
	return s
}

// attempts bounds how often a transaction is tried after deadlocks.
const attempts = 5

// write runs f in a transaction that changes something, and calls the fault point after
// its commit.
func (l *Ledger) write(ctx context.Context, what, committed string, f func(*tx) error) error {
	if err := l.change(ctx, f); err != nil {
		return l.fail(what, err)
	}
	if committed != "" {
		l.crash.At(committed)
	}
	return nil
}

// change runs f in a read-write transaction and returns its error unwrapped.
func (l *Ledger) change(ctx context.Context, f func(*tx) error) error {
	return l.run(ctx, func(ctx context.Context) error { return l.once(ctx, l.w, &sql.TxOptions{}, f) })
}

// execute executes one statement that changes data, without an explicit transaction.
func (l *Ledger) execute(ctx context.Context, what, text string, args ...any) error {
	return l.fail(what, l.run(ctx, func(ctx context.Context) error {
		_, err := (&tx{ctx: ctx, q: l.w, l: l}).exec(text, args...)
		return err
	}))
}

// read runs f in a read-only transaction with one snapshot.
func (l *Ledger) read(ctx context.Context, what string, f func(*tx) error) error {
	opts := &sql.TxOptions{}
	if l.d.postgres {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return l.fail(what, l.run(ctx, func(ctx context.Context) error { return l.once(ctx, l.r, opts, f) }))
}

// readOne runs f, which reads with one statement and needs no transaction for a snapshot.
func (l *Ledger) readOne(ctx context.Context, what string, f func(*tx) error) error {
	return l.fail(what, l.readOneRaw(ctx, f))
}

// readOneRaw is readOne with an unwrapped error.
func (l *Ledger) readOneRaw(ctx context.Context, f func(*tx) error) error {
	return l.run(ctx, func(ctx context.Context) error { return f(&tx{ctx: ctx, q: l.r, l: l}) })
}

func (l *Ledger) run(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for i := 1; ; i++ {
		err := f(ctx)
		if i == attempts || !again(err) {
			return err
		}
		wait := time.NewTimer(time.Duration(i*i) * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

func (l *Ledger) once(ctx context.Context, db *sql.DB, opts *sql.TxOptions, f func(*tx) error) error {
	t, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = t.Rollback() }() // no effect after Commit
	if err := f(&tx{ctx: ctx, q: t, l: l}); err != nil {
		return err
	}
	if err := t.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// list returns all rows of a query.
func list[T any](x *tx, scan func(func(...any) error) (T, error), text string, args ...any) ([]T, error) {
	rows, err := x.rows(text, args...)
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

// millis returns t in milliseconds, rounded down.
func millis(t time.Time) int64 { return t.UnixMilli() }

// millisUp returns t in milliseconds, rounded up. The result is after a time in whole
// milliseconds exactly if t is.
func millisUp(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
