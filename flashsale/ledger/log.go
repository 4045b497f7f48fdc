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

// appendAudit appends an entry to the audit log.
func appendAudit(x *tx, actor, id, what string, now time.Time) error {
	_, err := x.exec(noteText, millis(now), storableText(actor), storableText(id), storableText(what))
	return err
}

// AppendAudit implements sale.Ledger.
func (l *Ledger) AppendAudit(ctx context.Context, actor, id, what string, now time.Time) error {
	return l.execute(ctx, "log", noteText, millis(now), storableText(actor), storableText(id), storableText(what))
}

// AuditLog implements sale.Ledger.
func (l *Ledger) AuditLog(ctx context.Context, id string) ([]sale.AuditEntry, error) {
	text, args := "SELECT at, actor, sale, what FROM audit ORDER BY id DESC LIMIT 200", []any(nil)
	if id != "" {
		text, args = "SELECT at, actor, sale, what FROM audit WHERE sale = $1 ORDER BY id DESC LIMIT 200", []any{storableText(id)}
	}
	var all []sale.AuditEntry
	err := l.readOne(ctx, "logged", func(x *tx) (err error) {
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

// AddDeadLetter implements sale.Ledger. It does not change an entry that is stored already.
func (l *Ledger) AddDeadLetter(ctx context.Context, id string, epoch int64, e sale.Entry, reason string, now time.Time) error {
	reservation, err := json.Marshal(e.Reservation)
	if err != nil { // JSON cannot encode the time
		reservation = fmt.Appendf(nil, "%+v", e.Reservation)
	}
	if e.Reservation == (sale.Reservation{}) {
		reservation = nil
	}
	return l.execute(ctx, "bury", `INSERT INTO buried (sale, epoch, entry, deliveries, reservation, damaged, reason, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		storableText(id), epoch, storableText(e.ID), e.Deliveries, storableText(string(reservation)), storableText(e.Corrupt), storableText(reason), millis(now))
}

// AddMerchant implements sale.Ledger.
func (l *Ledger) AddMerchant(ctx context.Context, merchant, hash string) error {
	if err := validateName("merchant", merchant); err != nil {
		return l.fail("add merchant", err)
	}
	if hash == "" || storable(hash) == "" {
		return l.fail("add merchant", fmt.Errorf("%w: password hash: want 1 to 512 bytes of text", sale.ErrInvalid))
	}
	return l.execute(ctx, "add merchant", "INSERT INTO merchants (name, hash) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET hash = excluded.hash", merchant, hash)
}

// MerchantHash implements sale.Ledger.
func (l *Ledger) MerchantHash(ctx context.Context, merchant string) (string, error) {
	var hash string
	err := l.readOne(ctx, "merchant", func(x *tx) error {
		err := x.row("SELECT hash FROM merchants WHERE name = $1", storable(merchant)).Scan(&hash)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("merchant %s: %w", quote(merchant), sale.ErrNotFound)
		}
		return err
	})
	return hash, err
}
