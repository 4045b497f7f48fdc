package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// Journal implements meminventory.Journal in the table stream of a Ledger on SQLite. It is safe
// for concurrent use.
type Journal struct {
	l *Ledger
}

// Journal returns the journal in l, or an error if l is not on SQLite.
func (l *Ledger) Journal() (*Journal, error) {
	if l.db.IsPostgres() {
		return nil, errors.New("ledger: journal: got PostgreSQL, want SQLite")
	}
	return &Journal{l: l}, nil
}

// Append implements meminventory.Journal.
func (j *Journal) Append(ctx context.Context, id string, epoch int64, rs []sale.Reservation) error {
	type entry struct {
		ID          string           `json:"id"`
		Reservation sale.Reservation `json:"reservation"`
	}
	rows := make([]entry, len(rs))
	for i, r := range rs {
		rows[i] = entry{r.ID, r}
	}
	doc, err := json.Marshal(rows)
	if err != nil {
		return fail("append", fmt.Errorf("%w: %w", sale.ErrInvalid, err))
	}
	return fail("append", j.exec(ctx, "INSERT OR REPLACE INTO stream (sale, epoch, entry, reservation) SELECT $2, $3, id, reservation FROM {rows:id text, reservation text} WHERE true",
		string(doc), id, epoch))
}

// Pending implements meminventory.Journal.
func (j *Journal) Pending(ctx context.Context, id string, epoch int64) ([]sale.Entry, error) {
	var all []sale.Entry
	err := fail("pending", j.l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, scanEntry, "SELECT entry, reservation FROM stream WHERE sale = $1 AND epoch = $2 ORDER BY id", id, epoch)
		return err
	}))
	return all, err
}

func scanEntry(scan func(...any) error) (sale.Entry, error) {
	var e sale.Entry
	var text string
	if err := scan(&e.ID, &text); err != nil {
		return e, err
	}
	var r sale.Reservation
	switch err := json.Unmarshal([]byte(text), &r); {
	case err != nil:
		e.Corrupt = fmt.Sprintf("%v: %s", err, quote(text))
	case r.ID != e.ID:
		e.Corrupt = fmt.Sprintf("reservation %s in entry %s: %s", quote(r.ID), quote(e.ID), quote(text))
	default:
		e.Reservation = r
	}
	return e, nil
}

// Remove implements meminventory.Journal.
func (j *Journal) Remove(ctx context.Context, id string, entries ...string) error {
	doc, err := ids(entries)
	if err != nil {
		return fail("remove", err)
	}
	return fail("remove", j.exec(ctx, "DELETE FROM stream WHERE sale = $2 AND entry IN (SELECT id FROM {rows:id text})", doc, id))
}

// exec executes a statement in a transaction with what else is written at the time.
func (j *Journal) exec(ctx context.Context, text string, args ...any) error {
	return j.l.db.Do(ctx, database.WriteKeyed, func(x *database.Tx) error {
		_, err := x.Exec(text, args...)
		return err
	})
}
