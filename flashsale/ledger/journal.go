package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// Journal implements meminventory.Journal in the table journal of a Ledger on SQLite. It is safe
// for concurrent use, but one Journal of a database at a time may be written.
//
// A row holds the reservations of one Append, so that an entry costs a fraction of a row of its
// own. The Journal knows which of them were removed. It deletes a row without entries with the next
// Append, or when no entry is left. After a restart, the entries of the other rows return.
type Journal struct {
	l *Ledger

	mu      sync.Mutex
	entries map[entryKey]int64 // the row of each entry that was not removed
	left    map[int64]int      // how many of these a row has
	empty   []int64            // rows to delete
}

type entryKey struct{ sale, id string }

// Journal returns the journal in l, or an error if l is not on SQLite.
func (l *Ledger) Journal() (*Journal, error) {
	if l.db.IsPostgres() {
		return nil, errors.New("ledger: journal: got PostgreSQL, want SQLite")
	}
	return &Journal{l: l, entries: map[entryKey]int64{}, left: map[int64]int{}}, nil
}

// Append implements meminventory.Journal.
func (j *Journal) Append(ctx context.Context, id string, epoch int64, rs []sale.Reservation) error {
	if len(rs) == 0 {
		return nil
	}
	doc, err := json.Marshal(rs)
	if err != nil {
		return fail("append", fmt.Errorf("%w: %w", sale.ErrInvalid, err))
	}
	var row int64
	empty := j.emptyRows()
	err = j.l.db.Do(ctx, database.WriteKeyed, func(x *database.Tx) error {
		if err := deleteRows(x, empty); err != nil {
			return err
		}
		return x.Row("INSERT INTO journal (sale, epoch, reservations) VALUES ($1, $2, $3) RETURNING id", id, epoch, string(doc)).Scan(&row)
	})
	if err != nil {
		return fail("append", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deleted(empty)
	for _, r := range rs {
		j.add(entryKey{id, r.ID}, row)
	}
	return nil
}

// add moves an entry to a later row. It requires mu.
func (j *Journal) add(e entryKey, row int64) {
	if j.entries[e] < row {
		j.remove(e)
		j.entries[e] = row
		j.left[row]++
	}
}

// remove removes an entry from its row. It requires mu.
func (j *Journal) remove(e entryKey) {
	row, ok := j.entries[e]
	if !ok {
		return
	}
	delete(j.entries, e)
	if j.left[row]--; j.left[row] == 0 {
		delete(j.left, row)
		j.empty = append(j.empty, row)
	}
}

func (j *Journal) emptyRows() []int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.empty)
}

// deleted forgets rows that are deleted. It requires mu.
func (j *Journal) deleted(rows []int64) {
	j.empty = slices.DeleteFunc(j.empty, func(row int64) bool { return slices.Contains(rows, row) })
}

func deleteRows(x *database.Tx, rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	doc, err := json.Marshal(rows)
	if err == nil {
		_, err = x.Exec("DELETE FROM journal WHERE id IN (SELECT value FROM json_each($1))", string(doc))
	}
	return err
}

// journalRow is a row of the table journal.
type journalRow struct {
	id, epoch    int64
	reservations string
}

// Pending implements meminventory.Journal.
func (j *Journal) Pending(ctx context.Context, id string, epoch int64) ([]sale.Entry, error) {
	var rows []journalRow
	err := j.l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		rows, err = database.List(x, func(scan func(...any) error) (r journalRow, err error) {
			err = scan(&r.id, &r.epoch, &r.reservations)
			return r, err
		}, "SELECT id, epoch, reservations FROM journal WHERE sale = $1 ORDER BY id", id)
		return err
	})
	if err != nil {
		return nil, fail("pending", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []sale.Entry
	for _, r := range rows {
		if _, known := j.left[r.id]; known || slices.Contains(j.empty, r.id) {
			continue
		}
		for _, e := range r.entries() { // from before this Journal
			j.add(entryKey{id, e.ID}, r.id)
		}
		if j.left[r.id] == 0 {
			j.empty = append(j.empty, r.id)
		}
	}
	for _, r := range rows {
		if r.epoch != epoch {
			continue
		}
		for _, e := range r.entries() {
			if j.entries[entryKey{id, e.ID}] == r.id {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// entries decodes a row. An entry that is not a reservation gets an ID from its position.
func (r *journalRow) entries() []sale.Entry {
	var texts []json.RawMessage
	if err := json.Unmarshal([]byte(r.reservations), &texts); err != nil {
		return []sale.Entry{{ID: fmt.Sprint("row-", r.id), Corrupt: fmt.Sprintf("%v: %s", err, quote(r.reservations))}}
	}
	all := make([]sale.Entry, len(texts))
	for i, text := range texts {
		e := &all[i]
		err := json.Unmarshal(text, &e.Reservation)
		if err == nil && e.Reservation.ID == "" {
			err = errors.New("no ID")
		}
		if e.ID = e.Reservation.ID; err != nil {
			all[i] = sale.Entry{ID: fmt.Sprint("row-", r.id, "-", i), Corrupt: fmt.Sprintf("%v: %s", err, quote(string(text)))}
		}
	}
	return all
}

// Remove implements meminventory.Journal. It writes only when no entry is left: what it removes
// before is durable with a later Append or Remove.
func (j *Journal) Remove(ctx context.Context, id string, entries ...string) error {
	j.mu.Lock()
	for _, e := range entries {
		j.remove(entryKey{id, e})
	}
	idle := len(j.entries) == 0
	j.mu.Unlock()
	empty := j.emptyRows()
	if !idle || len(empty) == 0 {
		return nil
	}
	err := j.l.db.Do(ctx, database.WriteKeyed, func(x *database.Tx) error { return deleteRows(x, empty) })
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.deleted(empty)
	}
	return fail("remove", err)
}
