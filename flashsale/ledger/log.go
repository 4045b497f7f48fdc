package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/ledger/internal/accounts"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// records implements sale.RecordLedger.
type records struct{ db *database.DB }

const noteText = "INSERT INTO audit (at, actor, sale, what) VALUES ($1, $2, $3, $4)"

// appendAudit appends an entry to the audit log. The actor of an action by a merchant is the
// account of the context.
func appendAudit(x *database.Tx, actor, id, what string, now time.Time) error {
	_, err := x.Exec(noteText, millis(now), storableText(account.Actor(x.Context(), actor)), storableText(id), storableText(what))
	return err
}

// AppendAudit implements sale.Ledger.
func (l *records) AppendAudit(ctx context.Context, actor, id, what string, now time.Time) error {
	return fail("log", l.db.Exec(ctx, noteText, millis(now), storableText(account.Actor(ctx, actor)), storableText(id), storableText(what)))
}

// AuditLog implements sale.Ledger.
func (l *records) AuditLog(ctx context.Context, id string) ([]sale.AuditEntry, error) {
	text, args := "SELECT at, actor, sale, what FROM audit ORDER BY id DESC LIMIT 200", []any(nil)
	if id != "" {
		text, args = "SELECT at, actor, sale, what FROM audit WHERE sale = $1 ORDER BY id DESC LIMIT 200", []any{storableText(id)}
	}
	var all []sale.AuditEntry
	err := fail("logged", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (sale.AuditEntry, error) {
			var g sale.AuditEntry
			var at int64
			err := scan(&at, &g.Actor, &g.Sale, &g.Event)
			g.At = database.TimeOf(at)
			return g, err
		}, text, args...)
		return err
	}))
	return all, err
}

// AddDeadLetter implements sale.Ledger. It does not change an entry that is stored already.
func (l *records) AddDeadLetter(ctx context.Context, id string, epoch int64, e sale.Entry, reason string, now time.Time) error {
	reservation, err := json.Marshal(e.Reservation)
	if err != nil { // JSON cannot encode the time
		reservation = fmt.Appendf(nil, "%+v", e.Reservation)
	}
	if e.Reservation == (sale.Reservation{}) {
		reservation = nil
	}
	return fail("bury", l.db.Exec(ctx, `INSERT INTO buried (sale, epoch, entry, deliveries, reservation, damaged, reason, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		storableText(id), epoch, storableText(e.ID), e.Deliveries, storableText(string(reservation)), storableText(e.Corrupt), storableText(reason), millis(now)))
}

// AddMerchant implements sale.Ledger.
func (l *records) AddMerchant(ctx context.Context, merchant, hash string) error {
	if err := validateName("merchant", merchant); err != nil {
		return fail("add merchant", err)
	}
	return accounts.Store{DB: l.db}.AddMerchant(ctx, merchant, hash, time.Now())
}

// Accounts implements sale.Ledger.
func (l *records) Accounts() account.Store { return accounts.Store{DB: l.db} }
