package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// A tx is a transaction under way.
type tx struct {
	ctx context.Context
	t   *sql.Tx
	d   dialect
}

func (x *tx) row(text string, args ...any) *sql.Row {
	return x.t.QueryRowContext(x.ctx, x.d.sql(text), args...)
}

func (x *tx) rows(text string, args ...any) (*sql.Rows, error) {
	return x.t.QueryContext(x.ctx, x.d.sql(text), args...)
}

// exec returns how many rows changed.
func (x *tx) exec(text string, args ...any) (int64, error) {
	res, err := x.t.ExecContext(x.ctx, x.d.sql(text), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// attempts is how often a transaction that met a deadlock is tried.
const attempts = 5

// write runs f in a transaction that changes something, and calls the fault point after
// its commit.
func (l *Ledger) write(ctx context.Context, what, committed string, f func(*tx) error) error {
	err := l.run(ctx, l.w, &sql.TxOptions{}, f)
	if err != nil {
		return l.fail(what, err)
	}
	if committed != "" {
		l.fault.At(committed)
	}
	return nil
}

// read runs f in a transaction with one snapshot.
func (l *Ledger) read(ctx context.Context, what string, f func(*tx) error) error {
	opts := &sql.TxOptions{}
	if l.d.postgres {
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return l.fail(what, l.run(ctx, l.r, opts, f))
}

func (l *Ledger) run(ctx context.Context, db *sql.DB, opts *sql.TxOptions, f func(*tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for i := 1; ; i++ {
		err := l.once(ctx, db, opts, f)
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
	defer func() { _ = t.Rollback() }() // after a commit it does nothing
	if err := f(&tx{ctx: ctx, t: t, d: l.d}); err != nil {
		return err
	}
	if err := t.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// list reads every row of a query.
func list[T any](x *tx, scan func(func(...any) error) (T, error), text string, args ...any) ([]T, error) {
	rows, err := x.rows(text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is in rows.Err
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

// milli is t in whole milliseconds, rounded down.
func milli(t time.Time) int64 { return t.UnixMilli() }

// milliUp is t in whole milliseconds, rounded up: it is after a time in whole milliseconds
// exactly if t is.
func milliUp(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
