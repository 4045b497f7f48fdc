package auditor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	_ "modernc.org/sqlite"             // registers the driver
)

// A database reads snapshots with the auditor's own statements.
type database struct {
	db       *sql.DB
	postgres bool
}

func openDatabase(ctx context.Context, dsn string) (*database, error) {
	if dsn == "" {
		return nil, errors.New("auditor: database is empty, want postgres://… or the path of a SQLite file")
	}
	d := &database{postgres: strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")}
	name := "pgx"
	if !d.postgres {
		name = "sqlite"
		path := strings.TrimPrefix(strings.TrimPrefix(dsn, "sqlite:"), "file:")
		path, _, _ = strings.Cut(path, "?")
		path = strings.TrimPrefix(path, "//")
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("auditor: database: %w", err)
		}
		// Not mode=ro: after its writer was killed, SQLite has to replay the file's log.
		dsn = (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
			RawQuery: "mode=rw&_pragma=busy_timeout(5000)&_pragma=query_only(1)"}).String()
	}
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, fmt.Errorf("auditor: database: %w", err)
	}
	db.SetMaxOpenConns(2)
	d.db = db
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("auditor: database: %w", err), db.Close())
	}
	return d, nil
}

// snapshot calls f with a read-only transaction on one state of the database.
func (d *database) snapshot(ctx context.Context, f func(*sql.Tx) error) error {
	var o *sql.TxOptions
	if d.postgres {
		o = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, err := d.db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(f(tx), tx.Rollback())
}

// A saleRow is a row of the table sales.
type saleRow struct {
	id                       string
	price, stock, sold, paid int64
	perUser, headroom        int64
	maxQuantity              int64
	starts, ends             int64
	payWithin, tokenFor      int64
	queue, state, why        string
	recovering, epoch        int64
	refunded                 int64 // of sample: units of orders that the merchant refunded
}

func (d *database) sales(ctx context.Context, tx *sql.Tx, only []string) ([]saleRow, error) {
	wanted := map[string]bool{}
	for _, id := range only {
		wanted[id] = true
	}
	return rows(ctx, tx, `SELECT id, price, stock, sold, paid, per_user, max_quantity, headroom, starts_at, ends_at,
		pay_within_ms, token_for_ms, queue, state, why, recovering, epoch
		FROM sales WHERE state <> 'draft' ORDER BY id`, func(r *saleRow) ([]any, func() bool) {
		return []any{&r.id, &r.price, &r.stock, &r.sold, &r.paid, &r.perUser, &r.maxQuantity, &r.headroom, &r.starts, &r.ends,
			&r.payWithin, &r.tokenFor, &r.queue, &r.state, &r.why, &r.recovering, &r.epoch}, func() bool { return len(only) == 0 || wanted[r.id] }
	})
}

// An orderRow is a row of the table orders.
type orderRow struct {
	id, sale, user, ticket, key, state, payment string
	note                                        string
	epoch, slot, price, quantity                int64
	at, payBy, placed, changed, returned        int64
}

func (o *orderRow) live() bool { return o.state == "pending_pay" || o.state == "paid" }

// isOrder reports whether the reservation became an order.
func (o *orderRow) isOrder() bool {
	return o.live() || o.state == "expired" || o.state == "cancelled"
}

// refunded reports whether the merchant refunded the order after it was paid.
func (o *orderRow) refunded() bool { return o.state == "cancelled" && o.note == "refunded" }

func (d *database) orders(ctx context.Context, tx *sql.Tx) ([]orderRow, error) {
	return rows(ctx, tx, `SELECT reservation, sale, usr, ticket, key, state, coalesce(payment, ''), note, epoch, slot, price, quantity,
		at, pay_by, placed, changed, returned FROM orders ORDER BY at, reservation`, func(r *orderRow) ([]any, func() bool) {
		return []any{&r.id, &r.sale, &r.user, &r.ticket, &r.key, &r.state, &r.payment, &r.note, &r.epoch, &r.slot, &r.price, &r.quantity,
			&r.at, &r.payBy, &r.placed, &r.changed, &r.returned}, nil
	})
}

type movementRow struct {
	sale, kind, reservation string
	units, at               int64
}

func (d *database) movements(ctx context.Context, tx *sql.Tx) ([]movementRow, error) {
	return rows(ctx, tx, `SELECT sale, kind, coalesce(reservation, ''), units, at FROM movements ORDER BY id`,
		func(r *movementRow) ([]any, func() bool) {
			return []any{&r.sale, &r.kind, &r.reservation, &r.units, &r.at}, nil
		})
}

type paymentRow struct {
	id, reservation, state string
	amount, at             int64
}

func (d *database) payments(ctx context.Context, tx *sql.Tx) ([]paymentRow, error) {
	return rows(ctx, tx, `SELECT id, reservation, state, amount, at FROM payments ORDER BY id`,
		func(r *paymentRow) ([]any, func() bool) {
			return []any{&r.id, &r.reservation, &r.state, &r.amount, &r.at}, nil
		})
}

// A checkoutRow is a payment at a provider, with what was reported and the state of its refund.
type checkoutRow struct {
	payment, reservation, state, refund string
	paid, waits                         int64
}

func (d *database) checkouts(ctx context.Context, tx *sql.Tx) ([]checkoutRow, error) {
	return rows(ctx, tx, `SELECT c.id, c.reservation, c.state, coalesce(f.state, ''), coalesce(e.amount, -1), coalesce(e.waits, 0) FROM checkouts c
		LEFT JOIN payment_events e ON e.payment = c.id AND e.kind = 'paid' LEFT JOIN refunds f ON f.payment = c.id ORDER BY c.id`,
		func(r *checkoutRow) ([]any, func() bool) {
			return []any{&r.payment, &r.reservation, &r.state, &r.refund, &r.paid, &r.waits}, nil
		})
}

// deadLetters returns the reservations of the dead letters, in JSON.
func (d *database) deadLetters(ctx context.Context, tx *sql.Tx) ([]string, error) {
	return rows(ctx, tx, `SELECT reservation FROM buried`, func(r *string) ([]any, func() bool) { return []any{r}, nil })
}

// rows reads all rows of a statement. fields returns the scan targets of a row and an
// optional function that reports whether to keep it.
func rows[R any](ctx context.Context, tx *sql.Tx, statement string, fields func(*R) ([]any, func() bool)) ([]R, error) {
	rs, err := tx.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	var all []R
	for rs.Next() {
		var r R
		to, keep := fields(&r)
		if err := rs.Scan(to...); err != nil {
			return nil, err
		}
		if keep == nil || keep() {
			all = append(all, r)
		}
	}
	return all, rs.Err()
}

func at(ms int64) string { return clock(time.UnixMilli(ms)) }
