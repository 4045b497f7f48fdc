package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

const noteText = "INSERT INTO audit (at, actor, sale, what) VALUES ($1, $2, $3, $4)"

// note adds a line to the audit log.
func note(x *tx, actor, id, what string, now time.Time) error {
	_, err := x.exec(noteText, milli(now), clean(actor), clean(id), clean(what))
	return err
}

// Log adds a line to the audit log.
func (l *Ledger) AppendAudit(ctx context.Context, actor, id, what string, now time.Time) error {
	return l.do(ctx, "log", noteText, milli(now), clean(actor), clean(id), clean(what))
}

// Logged returns the last 200 lines of the audit log of a sale, or of all without one, the
// newest first.
func (l *Ledger) AuditLog(ctx context.Context, id string) ([]sale.AuditEntry, error) {
	text, args := "SELECT at, actor, sale, what FROM audit ORDER BY id DESC LIMIT 200", []any(nil)
	if id != "" {
		text, args = "SELECT at, actor, sale, what FROM audit WHERE sale = $1 ORDER BY id DESC LIMIT 200", []any{clean(id)}
	}
	var all []sale.AuditEntry
	err := l.ask(ctx, "logged", func(x *tx) (err error) {
		all, err = list(x, func(scan func(...any) error) (sale.AuditEntry, error) {
			var g sale.AuditEntry
			var at int64
			err := scan(&at, &g.Actor, &g.Sale, &g.Event)
			g.At = timeOf(at)
			return g, err
		}, text, args...)
		return err
	})
	return all, err
}

// Bury keeps an entry of the stream that cannot become an order. One that is kept already
// stays as it is.
func (l *Ledger) AddDeadLetter(ctx context.Context, id string, epoch int64, e sale.Entry, reason string, now time.Time) error {
	reservation, err := json.Marshal(e.Reservation)
	if err != nil { // a time that JSON cannot say
		reservation = fmt.Appendf(nil, "%+v", e.Reservation)
	}
	if e.Reservation == (sale.Reservation{}) {
		reservation = nil
	}
	return l.do(ctx, "bury", `INSERT INTO buried (sale, epoch, entry, deliveries, reservation, damaged, reason, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		clean(id), epoch, clean(e.ID), e.Deliveries, clean(string(reservation)), clean(e.Corrupt), clean(reason), milli(now))
}

// AddMerchant adds a merchant, or replaces the password's hash of one.
func (l *Ledger) AddMerchant(ctx context.Context, merchant, hash string) error {
	if err := name("merchant", merchant); err != nil {
		return l.fail("add merchant", err)
	}
	if hash == "" || known(hash) == "" {
		return l.fail("add merchant", fmt.Errorf("%w: the password's hash, want 1 to 512 bytes of text", sale.ErrInvalid))
	}
	return l.do(ctx, "add merchant", "INSERT INTO merchants (name, hash) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET hash = excluded.hash", merchant, hash)
}

// MerchantHash returns the password's hash of a merchant.
func (l *Ledger) MerchantHash(ctx context.Context, merchant string) (string, error) {
	var hash string
	err := l.ask(ctx, "merchant", func(x *tx) error {
		err := x.row("SELECT hash FROM merchants WHERE name = $1", known(merchant)).Scan(&hash)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("merchant %s: %w", show(merchant), sale.ErrNotFound)
		}
		return err
	})
	return hash, err
}
